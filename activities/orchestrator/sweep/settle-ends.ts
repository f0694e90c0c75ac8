/** Gives every rollout of an eval that was dispatched an end: `evaluated` if it was graded, else `masked`. */

import type { Store } from '../../../store/store.ts';
import type { OutcomeRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { type RolloutEnd, recordEnds } from '../../../reports/rollout-ends.ts';
import { evalRun } from '../../../reports/evaluation/eval-records.ts';

const ENDS = new Set(['evaluated', 'masked']);

/**
 * `reason` is recorded for rollouts without an outcome. Rollouts of round `before` and of later ones are left as they
 * are.
 */
export async function settleEnds(
  id: string,
  reason: string,
  store: Store,
  before = Number.POSITIVE_INFINITY,
): Promise<void> {
  const run = evalRun(id);
  const events = await store.events(run);
  const ended = new Set(events.filter(({ event }) => ENDS.has(event)).map(({ rollout }) => rollout));
  const at = new Date().toISOString();
  const ends: RolloutEnd[] = [];
  for (const { rollout, event } of events) {
    if (event !== 'dispatched' || ended.has(rollout)) continue;
    if (Number(/\/r(\d+)-c\d+\//.exec(rollout)?.[1] ?? 0) >= before) continue;
    const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
    const end = { run, rollout, attempt: outcome?.attempt ?? 1, at };
    const detail = outcome === undefined ? reason : (outcome.failure ?? 'internal');
    ends.push(outcome?.status === 'graded' ? { ...end, event: 'evaluated' } : { ...end, event: 'masked', detail });
  }
  await recordEnds(store, ends);
}
