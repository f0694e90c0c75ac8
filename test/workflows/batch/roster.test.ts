/**
 * The state of each rollout of a batch, under any order of starts, stage ends, ends and given-up rollouts. Hunted: a
 * rollout that ends twice or never, one that starts although it was given up, a graded result that is discarded.
 * Asserted too: a new history continues in the same way. Not asserted: caps and fairness (dispatcher.test.ts).
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Caps } from '../../../workflows/batch/dispatcher.ts';
import { Roster } from '../../../workflows/batch/roster.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';

const picks = fc.infiniteStream(fc.nat({ max: 10_000 }));
const caps = (open: number): Caps => ({ open, init: open, 'agent-run': open, reward: open });

function resultOf(index: number, status: RolloutResult['status']): RolloutResult {
  return {
    rollout: String(index),
    task: 'task',
    status,
    attempt: 1,
    turns: 1,
    ...(status === 'graded' ? { reward: 1 } : { failure: 'cancelled' as const }),
  };
}

/** Plays until all have ended; returns how each ended. */
function play(rollouts: number, open: number, order: Iterator<number>): Map<number, RolloutResult> {
  const all = Array.from({ length: rollouts }, (_, i) => i);
  let roster = new Roster(caps(open));
  roster.add(all);
  const begun = new Set<number>();
  const cancelled = new Set<number>();
  const given = new Set<number>();
  const results = new Map<number, RolloutResult>();
  const over = (index: number, result: RolloutResult) => {
    expect(results.has(index)).toBe(false);
    results.set(index, result);
  };
  const pick = () => order.next().value as number;
  while (results.size < rollouts) {
    roster.admit();
    const index = pick() % rollouts;
    const choice = pick() % 4;
    if (choice === 0) {
      for (const one of roster.begin(2)) {
        expect(given.has(one)).toBe(false);
        begun.add(one);
      }
    } else if (choice === 1) {
      const lost = roster.giveUp([index, (index + 1) % rollouts], 'straggler');
      for (const one of lost.withdrawn) over(one, roster.withdrawn(one, resultOf(one, 'failed')));
      for (const one of lost.unbegun) over(one, roster.ended(one, resultOf(one, 'failed')));
      for (const one of lost.running) {
        expect(begun.has(one) && !given.has(one)).toBe(true);
        cancelled.add(one);
      }
      for (const one of [...lost.withdrawn, ...lost.unbegun, ...lost.running]) given.add(one);
    } else if (choice === 2) {
      roster = new Roster(caps(open), structuredClone(roster.progress));
    } else if (begun.has(index) && roster.isOpen(index)) {
      over(index, roster.ended(index, resultOf(index, pick() % 2 === 0 ? 'graded' : 'failed')));
    }
    expect(new Set(roster.running)).toEqual(new Set([...begun].filter((one) => !results.has(one))));
  }
  for (const [index, result] of results) {
    if (result.status === 'graded') expect(result).toEqual(resultOf(index, 'graded'));
    else expect(result.failure).toBe(given.has(index) ? 'straggler' : 'cancelled');
  }
  expect([...cancelled].every((one) => results.has(one))).toBe(true);
  return results;
}

describe('the roster', () => {
  it('ends every rollout once, with its own result', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 5 }), picks, (rollouts, open, order) => {
        expect([...play(rollouts, open, order).keys()].toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: rollouts }, (_, i) => i),
        );
      }),
    );
  });

  it('reports the end of a stage once', () => {
    const roster = new Roster(caps(1));
    roster.add([0]);
    roster.admit();
    expect(roster.begin(1)).toEqual([0]);
    expect(roster.stageEnded(0, 'agent-run')).toBe(false);
    expect(roster.stageEnded(0, 'init')).toBe(true);
    expect(roster.stageEnded(0, 'init')).toBe(false);
    expect(roster.admit()).toEqual([{ rollout: 0, stage: 'agent-run' }]);
  });
});
