/**
 * Whether a test's end speaks of the handling that was taken out: it failed by an assertion. One that ran out of time
 * says so only where that is how the fault shows, and one that did not run says nothing.
 */

import type { Killer } from './mutation.ts';
import type { TestResult } from './run-tests.ts';

const OUT_OF_TIME = /(Test|Hook) timed out in \d+ms/u;

export interface Judgement {
  readonly ok: boolean;
  readonly line: string;
}

const firstLine = (text: string) => (text.split('\n')[0] ?? '').slice(0, 160);

const named = (results: readonly TestResult[], { file, test }: Killer) =>
  results.filter((one) => one.file === file && one.fullName.includes(test));

/** With the handling taken out. */
export function judgeMutated(killer: Killer, results: readonly TestResult[]): Judgement {
  const mine = named(results, killer);
  const failed = mine.filter(({ status }) => status === 'failed');
  const where = `${killer.file} > ${killer.test}`;
  if (mine.length === 0) return { ok: false, line: `did not run: ${where}` };
  if (failed.length === 0) return { ok: false, line: `SURVIVED: ${where}` };
  const reasons = failed.flatMap(({ failures }) => failures);
  const asserted = reasons.filter((reason) => !OUT_OF_TIME.test(reason));
  if (asserted.length === 0 && !killer.hangs) return { ok: false, line: `only ran out of time: ${where}` };
  return { ok: true, line: `${where}: ${firstLine(asserted[0] ?? reasons[0] ?? '')}` };
}

/** As the code is. */
export function judgeUnchanged(killer: Killer, results: readonly TestResult[]): Judgement {
  const mine = named(results, killer);
  const where = `${killer.file} > ${killer.test}`;
  if (mine.length === 0) return { ok: false, line: `no such test: ${where}` };
  const failed = mine.find(({ status }) => status !== 'passed');
  return failed
    ? { ok: false, line: `fails without any mutation: ${where}: ${firstLine(failed.failures[0] ?? '')}` }
    : { ok: true, line: where };
}
