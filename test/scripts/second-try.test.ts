/** Hunts failures that a second try hides: of races, of many tests at once, or of a test other than the passed one. */

import { expect, test } from 'vitest';
import {
  MOST_SECOND_TRIES,
  passedAlone,
  patternOf,
  secondTriesOf,
  withSecondTries,
} from '../../scripts/test/second-try.mjs';
import { exitCodeOf, lastLine } from '../../scripts/test/tally.mjs';

const counts = { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0, numTodoTests: 0 };
const reportOf = (files: Readonly<Record<string, readonly string[]>>) => ({
  ...counts,
  testResults: Object.entries(files).map(([file, failed]) => ({
    name: `/project/${file}`,
    status: 'failed',
    assertionResults: [
      { status: 'passed', fullName: 'passes' },
      ...failed.map((fullName) => ({ status: 'failed', fullName })),
    ],
  })),
});

test('each failed test is retried by its file and full name', () => {
  const report = reportOf({ 'test/trainer/a.test.ts': ['one two', 'three'], 'test/workers/b.test.ts': ['four'] });
  expect(secondTriesOf(report, '/project')).toEqual([
    { file: 'test/trainer/a.test.ts', name: 'one two' },
    { file: 'test/trainer/a.test.ts', name: 'three' },
    { file: 'test/workers/b.test.ts', name: 'four' },
  ]);
  expect(secondTriesOf(undefined, '/project')).toEqual([]);
});

test.each([
  'test/store/write-queue.test.ts',
  'test/workflows/batch/x.test.ts',
  'test/e2e/eval.test.ts',
  'test/chaos/own-docker.test.ts',
])('never in folders that hunt races: %s', (file) => {
  expect(secondTriesOf(reportOf({ [file]: ['fails'], 'test/cli/verbs/up.test.ts': ['late'] }), '/project')).toEqual([
    { file: 'test/cli/verbs/up.test.ts', name: 'late' },
  ]);
});

test('no second try for a file that fails as a whole, nor for any test if too many failed', () => {
  expect(secondTriesOf(reportOf({ 'test/trainer/a.test.ts': [] }), '/project')).toEqual([]);
  const names = Array.from({ length: MOST_SECOND_TRIES + 1 }, (_, i) => `test ${i}`);
  expect(secondTriesOf(reportOf({ 'test/trainer/a.test.ts': names.slice(1) }), '/project')).toHaveLength(
    MOST_SECOND_TRIES,
  );
  expect(secondTriesOf(reportOf({ 'test/trainer/a.test.ts': names }), '/project')).toEqual([]);
});

test('the pattern of a name matches only this name', () => {
  for (const name of ['a (b) [c] {d} | e.f * g+h? ^i$ \\j', 'plain']) {
    expect(new RegExp(patternOf(name)).test(name)).toBe(true);
    expect(new RegExp(patternOf(name)).test(`${name} too`)).toBe(false);
    expect(new RegExp(patternOf(`of a suite ${name}`)).test(`of a suite > ${name}`)).toBe(true);
  }
});

test('a second try passes only with exactly one passed test and no failure', () => {
  const report = { ...counts, testResults: [] };
  expect(passedAlone({ ...report, numPassedTests: 1 }, 0)).toBe(true);
  for (const numPassedTests of [0, 2]) expect(passedAlone({ ...report, numPassedTests }, 0)).toBe(false);
  expect(passedAlone({ ...report, numPassedTests: 1, numFailedTests: 1 }, 1)).toBe(false);
  expect(passedAlone({ ...report, numPassedTests: 1 }, 1)).toBe(false);
  expect(passedAlone(undefined, 0)).toBe(false);
});

test('the last line counts passed second tries as passed, and tests that failed twice as failed', () => {
  const total = withSecondTries({ passed: 10, failed: 3, skipped: 0 }, 2);
  expect(lastLine(total)).toBe('12 passed, 1 failed');
  expect(exitCodeOf(total, {})).toBe(1);
  expect(exitCodeOf(withSecondTries({ passed: 10, failed: 2, skipped: 0 }, 2), { CI: 'true' })).toBe(0);
});
