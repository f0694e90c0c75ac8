/**
 * Which failed tests are run once more, alone: a loaded machine may fail correct tests. Tests that look for races get
 * no second try, and neither do many failures at once. Pure.
 */

import { relative, sep } from 'node:path';

/** Most failures that may be caused by load. With more, the run fails without second tries. */
export const MOST_SECOND_TRIES = 5;

/** Folders whose tests look for faults that happen only sometimes. */
const NEVER = ['test/store/', 'test/workflows/', 'test/e2e/', 'test/chaos/'];

/**
 * Failed tests of vitest's JSON report that get a second try, as `{ file, name }`, with the file relative to `root`.
 * Empty if there are too many.
 */
export function secondTriesOf(report, root) {
  const failed = (report?.testResults ?? []).flatMap(({ name, assertionResults }) => {
    const file = relative(root, name).split(sep).join('/');
    if (NEVER.some((folder) => file.startsWith(folder))) return [];
    return assertionResults.filter((test) => test.status === 'failed').map((test) => ({ file, name: test.fullName }));
  });
  return failed.length > MOST_SECOND_TRIES ? [] : failed;
}

/** A pattern that matches only this test. Vitest's report separates suite and test by a space, its filter by ` > `. */
export const patternOf = (name) => `^${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll(' ', '(?: > | )')}$`;

/** True if the run of one test passed: exactly this test ran, and nothing failed. */
export const passedAlone = (report, exitCode) =>
  exitCode === 0 && report?.numPassedTests === 1 && report.numFailedTests === 0;

/** The tally with `count` failed tests counted as passed, since they passed at the second try. */
export function withSecondTries(tally, count) {
  return { ...tally, passed: tally.passed + count, failed: tally.failed - count };
}
