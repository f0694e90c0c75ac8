/**
 * Hunts batches that are accepted, and then cannot continue in a new history: Temporal takes 2 MB at most, of which the
 * batch's own input is a part. And numbers or tallies that differ in the next history.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { beginOrder } from '../../../workflows/batch/dispatch-schedule.ts';
import type { Caps } from '../../../workflows/batch/dispatcher.ts';
import { BatchLedger } from '../../../workflows/batch/ledger.ts';
import { packed, unpacked } from '../../../workflows/batch/packed.ts';
import { Roster } from '../../../workflows/batch/roster.ts';
import { MOST_ROLLOUTS, MOST_TASKS } from '../../../protocol/limits.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';

const MOST_BYTES = 2 * 1024 * 1024;
const samples = MOST_ROLLOUTS / MOST_TASKS;
const bytes = (value: unknown) => JSON.stringify(value).length;
const tasks = Array.from({ length: MOST_TASKS }, (_, i) => `swe-mini-train-some-task-${i}`);
const graded = (reward: number): RolloutResult => ({
  rollout: 'r',
  task: 't',
  status: 'graded',
  attempt: 1,
  turns: 1,
  reward,
});
const failed: RolloutResult = { rollout: 'r', task: 't', status: 'failed', attempt: 1, turns: 1, failure: 'timeout' };

describe('what a batch carries over', () => {
  it.each([
    ['task', Number.POSITIVE_INFINITY],
    ['task', 500],
    ['sample', 96],
  ] as const)('fits where it is as large as a batch may be (by %s, %d at once)', (order, open) => {
    const caps: Caps = {
      open,
      init: Number.POSITIVE_INFINITY,
      'agent-run': Number.POSITIVE_INFINITY,
      reward: Number.POSITIVE_INFINITY,
    };
    const roster = new Roster(caps);
    roster.add(beginOrder({ samples }, 0, MOST_TASKS, order));
    roster.admit();
    roster.begin(100);
    const ledger = new BatchLedger(samples);
    // Two rollouts of each group have ended, with a judge's rewards.
    for (let group = 0; group < MOST_TASKS; group += 1)
      for (const reward of [1 / 3, 2 / 3]) ledger.end(group, graded(reward + group / 7e6));
    expect(bytes([{ tasks }, { ...roster.progress, ledger: ledger.progress }])).toBeLessThan(MOST_BYTES);
    expect(new Roster(caps, structuredClone(roster.progress)).progress).toEqual(roster.progress);
  });

  it('is the same numbers in the same order', () => {
    fc.assert(
      fc.property(
        fc
          .array(
            fc.oneof(
              fc.array(fc.nat(20), { maxLength: 6 }),
              fc
                .tuple(fc.nat(99), fc.nat(9), fc.integer({ min: -3, max: 3 }))
                .map(([first, count, step]) => Array.from({ length: count }, (_, i) => first + i * step)),
            ),
          )
          .map((parts) => parts.flat()),
        (numbers) => {
          expect(unpacked(structuredClone(packed(numbers)))).toEqual(numbers);
        },
      ),
    );
    expect(packed([0, 2, 4, 6, 1, 3, 5, 7, 9])).toEqual([
      [0, 4, 2],
      [1, 5, 2],
    ]);
  });

  it('is the same tallies, also from histories of earlier code', () => {
    const ledger = new BatchLedger(4);
    for (const [group, result] of [
      [0, failed],
      [1, graded(0.5)],
      [2, graded(0)],
      [2, graded(1)],
      [3, graded(1)],
      [3, graded(1)],
    ] as const)
      ledger.end(group, result);
    const { progress } = ledger;
    expect(progress.groups).toEqual([
      [0, 1, 0],
      [1, 1, 1, 0.5],
      [2, 2, 2, 0, 1],
      [3, 2, 2, 1],
    ]);
    const next = new BatchLedger(4, structuredClone(progress));
    expect(next.progress).toEqual(progress);
    expect(next.end(1, graded(0.25))).toEqual({ ended: 2, graded: 2, least: 0.25, most: 0.5 });
  });

  it('has the failures that are not recorded yet', () => {
    const ledger = new BatchLedger(4);
    ledger.end(0, failed);
    expect(new BatchLedger(4, structuredClone(ledger.progress)).takeFailures()).toEqual([failed]);
    ledger.takeFailures();
    expect(ledger.progress.unrecorded).toBeUndefined();
  });
});
