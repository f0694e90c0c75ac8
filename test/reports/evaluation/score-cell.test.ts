/** Hunts scores that failures of the infrastructure change unnoticed, and families or tasks with too much weight. */
import { expect, it } from 'vitest';
import type { Member } from '../../../reports/evaluation/cell-members.ts';
import { checkFamilies, scoreCell } from '../../../reports/evaluation/score-cell.ts';
import type { FailureClass } from '../../../protocol/finish-reason.ts';

function member(task: string, sample: number, end: number | FailureClass | undefined): Member {
  if (end === undefined) return { task, sample, outcome: undefined };
  const graded = typeof end === 'number';
  const outcome = {
    rollout: `r/${task}/${sample}`,
    task,
    attempt: 1,
    turns: 1,
    finish: null,
    reason: '',
    status: graded ? ('graded' as const) : ('failed' as const),
    reward: graded ? end : null,
    passed: graded && end >= 1,
    failure: graded ? null : end,
  };
  return { task, sample, outcome };
}

const settings = {
  cell: 'p/s',
  policy: 'p',
  sampling: 's',
  samples: 2,
  passAt: [1, 2, 4],
  bootstrap: { resamples: 200, confidence: 0.95 },
  seed: 1,
  familyOf: (task: string) => task.slice(0, 1),
};

it('counts failed rollouts as not passed, lists their reasons, and also gives scores without them', () => {
  const members = [
    member('a1', 0, 1),
    member('a1', 1, 0.5),
    member('a2', 0, 1),
    member('a2', 1, 'sandbox-lost'),
    member('b1', 0, undefined),
    member('b1', 1, 'deadline'),
  ];
  const scored = scoreCell(members, settings);
  expect(scored).toMatchObject({
    tasks: 3,
    rollouts: 6,
    graded: 3,
    failed: { 'sandbox-lost': 1, 'no-outcome': 1, deadline: 1 },
  });
  expect(scored.meanReward?.mean).toBeCloseTo((0.75 + 0.5 + 0) / 3, 12);
  expect(scored.passAt['1']?.mean).toBeCloseTo((0.5 + 0.5 + 0) / 3, 12);
  expect(scored.passAt['2']?.mean).toBeCloseTo(2 / 3, 12);
  // Two samples are too few for pass@4.
  expect(Object.keys(scored.passAt)).toEqual(['1', '2']);
  // Graded samples: a1 has two, a2 one, b1 none.
  expect(scored.ofGraded).toMatchObject({ tasks: 2, rollouts: 3, passAt: { '2': { mean: 1 } } });
  expect(scored.ofGraded.passAt['1']?.mean).toBeCloseTo((0.5 + 1) / 2, 12);
  expect(scored.byFamily).toMatchObject({
    a: { tasks: 2, rollouts: 4, passAt: { '1': { mean: 0.5 } } },
    b: { tasks: 1, passAt: { '1': { mean: 0 } } },
  });
});

it('of a cell without a graded rollout is 0 over all, and has no scores over the graded ones', () => {
  const scored = scoreCell([member('a1', 0, 'deadline')], { ...settings, samples: 1 });
  expect(scored).toMatchObject({
    graded: 0,
    passAt: { '1': { mean: 0, low: 0, high: 0 } },
    ofGraded: { tasks: 0, rollouts: 0, meanReward: null, passAt: {} },
  });
});

it('is the same each time', () => {
  const members = Array.from({ length: 40 }, (_, i) => member(`t${i >> 1}`, i & 1, i % 3 === 0 ? 1 : 0));
  expect(scoreCell(members, settings)).toEqual(scoreCell(members, settings));
});

it('is refused if it contradicts its families, whatever the size and the sign of the rewards', () => {
  const ends = [3e15, -3e15, 0.1, 0.2, -7, 1e-9].map((reward, i) => member(`t${i}`, 0, reward));
  const { byFamily, ...all } = scoreCell(ends, { ...settings, samples: 1 });
  expect(() => checkFamilies(all, byFamily, 3e15)).not.toThrow();
  const of = (mean: number) => ({ tasks: 4, rollouts: 16, meanReward: { mean, low: 0, high: 0.75 }, passAt: {} });
  const families = { a: { ...of(0.75), tasks: 2, rollouts: 8 }, b: { ...of(0), tasks: 2, rollouts: 8 } };
  expect(() => checkFamilies(of(0.375), families, 1)).not.toThrow();
  expect(() => checkFamilies(of(0.75), families, 1)).toThrow(/16 rollouts contradict .* 3 and 1.5 over 4 tasks/);
  expect(() => checkFamilies({ ...of(0.375), rollouts: 15 }, families, 1)).toThrow(/15 rollouts contradict/);
});
