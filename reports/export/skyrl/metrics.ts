/** SkyRL-Agent's `rollout_metrics/*`, under its names and by its definitions. */

import type { GenerateRecord } from '../../../protocol/records.ts';

/** The tool calls of one trajectory. */
export interface ToolProfile {
  readonly total: number;
  readonly byName: Readonly<Record<string, number>>;
}

/** From the records of a rollout's turns: every call that could be read counts, whatever it did. */
export function toolProfileOf(turns: readonly GenerateRecord[]): ToolProfile {
  const byName: Record<string, number> = {};
  const calls = turns.flatMap(({ parsed }) => (parsed.kind === 'calls' ? parsed.calls : []));
  for (const { name } of calls) byName[name] = (byName[name] ?? 0) + 1;
  return { total: calls.length, byName };
}

interface Measured {
  readonly instance: string;
  readonly turns: number;
  readonly reward: number;
  readonly reason: string | null;
  readonly tools?: ToolProfile;
}

const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);
const mean = (values: readonly number[]): number => (values.length === 0 ? 0 : sum(values) / values.length);

/** Instances all or none of whose trajectories have a reward above 0. */
function resolved(ended: readonly Measured[]): { readonly all: number; readonly none: number } {
  const groups = [...Map.groupBy(ended, ({ instance }) => instance).values()];
  const counts = groups.map((group) => [group.filter(({ reward }) => reward > 0).length, group.length] as const);
  return {
    none: counts.filter(([some]) => some === 0).length,
    all: counts.filter(([some, total]) => some > 0 && some === total).length,
  };
}

function distribution(name: string, values: readonly number[]): Record<string, number> {
  if (values.length === 0) return {};
  return {
    [`${name}_total`]: sum(values),
    [`${name}_per_traj_mean`]: mean(values),
    [`${name}_per_traj_min`]: values.reduce((a, b) => Math.min(a, b)),
    [`${name}_per_traj_max`]: values.reduce((a, b) => Math.max(a, b)),
  };
}

function toolMetrics(ended: readonly Measured[]): Record<string, number> {
  const profiles = ended.flatMap(({ tools }) => tools ?? []);
  const byName: Record<string, number> = {};
  for (const profile of profiles)
    for (const [name, calls] of Object.entries(profile.byName)) byName[name] = (byName[name] ?? 0) + calls;
  const others = profiles.map(({ byName: calls }) =>
    sum(Object.entries(calls).map(([name, count]) => (name === 'finish' ? 0 : count))),
  );
  return {
    ...distribution(
      'tool_calls',
      profiles.map(({ total }) => total),
    ),
    ...distribution('tool_calls_no_finish', others),
    ...Object.fromEntries(Object.entries(byName).map(([name, calls]) => [`tool_name/${name}`, calls])),
  };
}

/**
 * `ended`: the trajectories of the output, `masks`: the loss masks of its sequences, `given`: all trajectories, also
 * those without a turn. `num_mask_non_zero_reward` pairs the sequence and the trajectory of one index, as in SkyRL:
 * they belong together where each trajectory has one sequence.
 */
export function rolloutMetrics(
  ended: readonly Measured[],
  masks: ReadonlyArray<readonly number[]>,
  given: ReadonlyArray<Pick<Measured, 'turns' | 'reward'>>,
): Record<string, number> {
  const share = (reason: string): number => mean(ended.map((one) => (one.reason === reason ? 1 : 0)));
  const out = masks.map((mask) => mask.every((value) => value === 0));
  const { all, none } = resolved(ended);
  const metrics = {
    avg_turn_assistant: mean(ended.map(({ turns }) => turns)),
    num_all_resolved: all,
    num_none_resolved: none,
    finish_tool_ratio: share('FINISH_TOOL'),
    context_exceed_ratio: share('CONTEXT_WINDOW_EXCEEDED'),
    iter_cap_ratio: share('max_iterations_reached'),
    stuck_in_a_loop_ratio: share('stuck_in_a_loop'),
    error_runtime: share('error_runtime'),
    error_evaluation: share('error_evaluation'),
    num_mask_out: out.filter(Boolean).length,
    num_mask_non_zero_reward: ended.filter(({ reward }, i) => reward > 0 && out[i] === true).length,
    bad_llm_response: share('BAD_LLM_RESPONSE'),
    raw_reward: mean(given.map(({ reward }) => reward)),
    num_empty_messages: given.filter(({ turns }) => turns === 0).length,
    ...toolMetrics(ended),
  };
  return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`rollout_metrics/${name}`, value]));
}
