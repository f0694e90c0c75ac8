/** Hunts accounting of an eval that does not add up. */
import { expect, it } from 'vitest';
import type { EvalResults } from '../../../reports/evaluation/eval-results.ts';
import { evalReportLines } from '../../../cli/eval/format.ts';

const accounting = { dispatched: 24, trained: 0, masked: 1, dropped: 0, evaluated: 16, duplicated: 0, lost: 0 };
const results = {
  eval: 'e',
  status: 'running',
  evalDir: '/e',
  confidence: 0.95,
  cells: [],
  spent: { tokens: 0, usd: 0, hours: 0, budget: {}, policy: null, judges: {} },
  accounting,
} as unknown as EvalResults;
const account = (of: EvalResults) => evalReportLines(of).find((line) => line.startsWith('rollouts: '));

it('open rollouts are counted while the eval runs', () => {
  expect(account(results)).toBe('rollouts: 24 dispatched = 16 evaluated + 1 masked + 7 running; 0 lost, 0 duplicated');
  expect(account({ ...results, status: 'completed', accounting: { ...accounting, evaluated: 23 } })).toBe(
    'rollouts: 24 dispatched = 23 evaluated + 1 masked; 0 lost, 0 duplicated',
  );
});

it('the first line has the reason of a failure, unless the error that follows has it', () => {
  const failed = { ...results, status: 'failed', message: 'no gpu worker' } as EvalResults;
  expect(evalReportLines(failed)).toContain('eval e failed: no gpu worker');
  expect(evalReportLines(failed, '').join('\n')).not.toContain('no gpu worker');
});
