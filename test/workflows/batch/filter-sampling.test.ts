/**
 * Dynamic sampling. Why: a batch that stops too early trains on too little, one that never stops draws forever.
 * Asserted, for any pattern of groups that vary and any order of their ends: a batch ends only with enough groups that
 * vary or without candidates; if they end in the order of their starts, it draws little more than it needs.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DynamicSampling, allAtOnce, untilVaried } from '../../../workflows/batch/dynamic-sampling.ts';

/** Ends groups in the order of `picks` until none runs; returns how many started and varied. */
function play(varies: readonly boolean[], wanted: number | undefined, picks: Iterator<number>) {
  const sampling = new DynamicSampling(
    wanted === undefined ? allAtOnce(varies.length) : untilVaried(varies.length, wanted),
  );
  const running: number[] = [];
  let next = 0;
  let varied = 0;
  const fill = () => {
    const count = sampling.admit();
    for (let i = 0; i < count; i += 1) running.push(next++);
  };
  const peak = { first: 0 };
  fill();
  peak.first = next;
  while (running.length > 0) {
    const [group = 0] = running.splice((picks.next().value as number) % running.length, 1);
    if (varies[group] === true) varied += 1;
    sampling.groupEnded(varies[group] === true);
    fill();
  }
  expect(sampling.begun).toBe(next);
  return { begun: next, varied, first: peak.first };
}

const picks = fc.infiniteStream(fc.nat({ max: 10_000 }));

describe('dynamic sampling', () => {
  it('ends with enough groups that vary, or with all candidates drawn', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 12 }),
        picks,
        (varies, wanted, order) => {
          const { begun, varied, first } = play(varies, wanted, order);
          expect(first).toBe(Math.min(wanted, varies.length));
          expect(varied >= wanted || begun === varies.length).toBe(true);
        },
      ),
    );
  });

  it('draws no more than are wanted when all vary', () => {
    expect(
      play(
        Array.from({ length: 40 }, () => true),
        8,
        zeros(),
      ),
    ).toMatchObject({ begun: 8, varied: 8 });
  });

  it('draws little more than is needed when every other group varies and they end in the order of their starts', () => {
    const { begun, varied } = play(
      Array.from({ length: 100 }, (_, i) => i % 2 === 0),
      8,
      zeros(),
    );
    expect(varied).toBeGreaterThanOrEqual(8);
    expect(begun).toBeLessThanOrEqual(20);
  });

  it('starts all at once if no number is wanted', () => {
    expect(play([true, false, false], undefined, zeros())).toMatchObject({ begun: 3, first: 3 });
  });
});

function* zeros(): Generator<number> {
  for (;;) yield 0;
}
