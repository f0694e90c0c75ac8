/** Hunts runs that are called better because fewer of their rollouts failed. */
import { expect, it } from 'vitest';
import type { RunSummary } from '../../../reports/run-summary.ts';
import { improved } from '../../../cli/train/report.ts';
import { evaluationLines } from '../../../cli/train/format.ts';
import type { EvaluationRecord } from '../../../protocol/step-record.ts';

/** An evaluation of ten rollouts; without `failed`, as runs of older builds have it. */
function evaluation(passed: number, failed?: number): EvaluationRecord {
  const record = { passRate: passed / 10, greedyPassRate: null, rollouts: 10, byFamily: {} };
  if (failed === undefined) return record;
  const graded = 10 - failed;
  return {
    ...record,
    gradedPassRate: graded > 0 ? passed / graded : null,
    failed: failed > 0 ? { 'sandbox-lost': failed } : {},
  };
}
const rose = (before: EvaluationRecord | null, after: EvaluationRecord | null) =>
  improved({ evaluation: { before, after, all: [] } } as unknown as RunSummary);

it.each([
  ['more passed', evaluation(2, 0), evaluation(3, 0), true],
  ['more passed, and some failed in both', evaluation(2, 1), evaluation(4, 1), true],
  ['as many passed', evaluation(3, 0), evaluation(3, 0), false],
  ['all of the rise is fewer failures', evaluation(4, 2), evaluation(5, 0), false],
  ['all of the rise among the graded is more failures', evaluation(4, 0), evaluation(4, 5), false],
  ['nothing was graded before', evaluation(0, 10), evaluation(5, 0), false],
  ['nothing was graded after', evaluation(2, 0), evaluation(0, 10), false],
  ['older records: more passed', evaluation(2), evaluation(3), true],
  ['older records: as many passed', evaluation(3), evaluation(3), false],
  ['there is no evaluation after', evaluation(2, 0), null, false],
])('%s', (_, before, after, expected) => {
  expect(rose(before, after)).toBe(expected);
});

it('failures are printed beside the pass rate', () => {
  expect(evaluationLines('after', evaluation(4, 2)).join('\n')).toContain(
    'not graded: 2 sandbox-lost; 50.0% of the graded ones passed',
  );
  expect(evaluationLines('after', evaluation(4, 0)).join('\n')).not.toContain('not graded');
});
