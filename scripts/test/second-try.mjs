/**
 * Which failed tests are run once more, alone: a machine under load fails some that are right. Where races are hunted a
 * failure is never run away, and neither is one of many. Pure.
 */

import { relative, sep } from 'node:path';

/** More of them are no accident of the load: the run fails. */
export const MOST_SECOND_TRIES = 5;

/** Below these a test that fails sometimes is what is looked for. */
const NEVER = ['test/store/', 'test/workflows/', 'test/e2e/', 'test/chaos/'];

/** Failed tests of vitest's JSON report that may have a second try: `{ file, name }`, the file relative to `root`; none where they are too many. */
export function secondTriesOf(report, root) {
  const failed = (report?.testResults ?? []).flatMap(({ name, assertionResults }) => {
    const file = relative(root, name).split(sep).join('/');
    if (NEVER.some((folder) => file.startsWith(folder))) return [];
    return assertionResults.filter((test) => test.status === 'failed').map((test) => ({ file, name: test.fullName }));
  });
  return failed.length > MOST_SECOND_TRIES ? [] : failed;
}

/** vitest's pattern of this test's name and no other: its report puts a space between a suite and its test, its filter ` > `. */
export const patternOf = (name) => `^${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll(' ', '(?: > | )')}$`;

/** Whether a run of one test passed: that very test ran, and nothing failed. */
export const passedAlone = (report, exitCode) =>
  exitCode === 0 && report?.numPassedTests === 1 && report.numFailedTests === 0;

/** The tally with tests that passed at the second try among those that passed. */
export function withSecondTries(tally, count) {
  return { ...tally, passed: tally.passed + count, failed: tally.failed - count };
}
