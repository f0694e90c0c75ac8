/**
 * Metrics of several episodes as SkyRL-Gym sums them up. They differ from the product's own, which are means over the
 * rollouts that have a name: here an episode without it counts as 0.
 */

type Metrics = Readonly<Record<string, unknown>>;

/** Numbers as they are, booleans as 0 or 1; `undefined` for texts, lists and what is no finite number. */
function numeric(value: unknown): number | undefined {
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** `default_aggregate_metrics`: for each name with a number, the sum over all episodes divided by their count. */
export function defaultAggregate(episodes: readonly Metrics[]): Record<string, number> {
  const sums = new Map<string, number>();
  for (const [name, value] of episodes.flatMap((one) => Object.entries(one))) {
    const number = numeric(value);
    if (number !== undefined) sums.set(name, (sums.get(name) ?? 0) + number);
  }
  return Object.fromEntries([...sums].map(([name, sum]) => [name, sum / episodes.length]));
}

/** `gsm8k_multi_turn`'s own: the mean of `steps`. Empty without episodes. */
export function multiTurnAggregate(episodes: readonly Metrics[]): Record<string, number> {
  if (episodes.length === 0) return {};
  const steps = episodes.map((one) => numeric(one['steps']) ?? 0);
  return { avg_steps: steps.reduce((sum, one) => sum + one, 0) / episodes.length };
}
