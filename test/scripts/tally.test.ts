/** Hunts a test run that fails and is reported as passed. */

import { expect, test } from 'vitest';
import { exitCodeOf, lastLine, sum, tallyCheck, tallyVitest } from '../../scripts/test/tally.mjs';

const report = { numPassedTests: 5, numFailedTests: 0, numPendingTests: 0, numTodoTests: 0, testResults: [] };

test('a check counts as one test, and all counts are summed', () => {
  const total = sum([tallyCheck(0), tallyCheck(2), tallyVitest(report, 0)]);
  expect(lastLine(total)).toBe('6 passed, 1 failed');
  expect(exitCodeOf(total, {})).toBe(1);
});

test.each([
  ['a file that does not load', { ...report, testResults: [{ status: 'failed', assertionResults: [] }] }, 1, 1],
  [
    'a file with a failed test and a failed hook',
    { ...report, numFailedTests: 1, testResults: [{ status: 'failed', assertionResults: [{ status: 'failed' }] }] },
    1,
    1,
  ],
  ['an error outside of the tests', report, 1, 1],
  ['no report at all', undefined, 1, 1],
])('%s is a failure', (_name, given, exitCode, failed) => {
  expect(tallyVitest(given, exitCode).failed).toBe(failed);
});

test('errors outside of tests are counted in addition to failed tests, so that second tries cannot hide them', () => {
  const failed = {
    ...report,
    numFailedTests: 1,
    testResults: [{ status: 'failed', assertionResults: [{ status: 'failed' }] }],
  };
  expect(tallyVitest(failed, 1, 2).failed).toBe(3);
  expect(tallyVitest(report, 1, 1).failed).toBe(1);
});

test('skipped tests are shown, and fail if CI is set', () => {
  const total = tallyVitest({ ...report, numPendingTests: 1, numTodoTests: 1 }, 0);
  expect(lastLine(total)).toBe('5 passed, 0 failed, 2 skipped');
  expect(exitCodeOf(total, {})).toBe(0);
  expect(exitCodeOf(total, { CI: 'true' })).toBe(1);
  expect(exitCodeOf({ passed: 1, failed: 0, skipped: 0 }, { CI: 'true' })).toBe(0);
});

test('a run without tests is not a success', () => {
  expect(exitCodeOf({ passed: 0, failed: 0, skipped: 0 }, {})).toBe(1);
});
