/**
 * Which open workflows of a run one round examines, if there are many: those that all others wait for, the oldest
 * rollouts, which are the most likely to be stuck, and some of the newest. Pure.
 */

export interface OpenWorkflow {
  readonly id: string;
  readonly type: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

/** The most workflows of each kind. */
export interface Shares {
  /** Batches and units, the oldest. */
  readonly parents: number;
  readonly oldest: number;
  readonly newest: number;
}

export const SHARES: Shares = { parents: 200, oldest: 150, newest: 50 };

/** A run's or an eval's own workflow. */
const isOwner = ({ type }: OpenWorkflow): boolean => type === 'train' || type === 'evalSweep';

/** Ids, each once. */
export function chooseWorkflows(open: readonly OpenWorkflow[], { parents, oldest, newest }: Shares = SHARES): string[] {
  const byAge = [...new Map(open.map((one) => [one.id, one])).values()].sort((a, b) => a.startedAt - b.startedAt);
  const rollouts = byAge.filter(({ type }) => type === 'rollout');
  const others = byAge.filter((one) => one.type !== 'rollout' && !isOwner(one));
  const young = rollouts.slice(oldest).slice(-newest);
  return [...byAge.filter(isOwner), ...others.slice(0, parents), ...rollouts.slice(0, oldest), ...young].map(
    ({ id }) => id,
  );
}
