/** Counts of passed, failed and skipped tests. No failure is left out. Pure. */

/** A check without tests (such as lint) counts as one test. */
export function tallyCheck(exitCode) {
  return exitCode === 0 ? { passed: 1, failed: 0, skipped: 0 } : { passed: 0, failed: 1, skipped: 0 };
}

/**
 * Counts from vitest's JSON report. One failure each: a file that fails as a whole (it does not load, a hook throws),
 * each of the `errors` outside of tests, a run that ends with an error although nothing failed, and a run without a
 * report.
 */
export function tallyVitest(report, exitCode, errors = 0) {
  if (report === undefined) return { passed: 0, failed: 1, skipped: 0 };
  const files = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  );
  const failed = report.numFailedTests + files.length + errors;
  return {
    passed: report.numPassedTests,
    failed: failed === 0 && exitCode !== 0 ? 1 : failed,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}

export function sum(tallies) {
  const total = (key) => tallies.reduce((count, tally) => count + tally[key], 0);
  return { passed: total('passed'), failed: total('failed'), skipped: total('skipped') };
}

/** If CI is set, a skipped test is a failure: CI must have everything that the tests need. */
export function exitCodeOf(total, env) {
  const strict = env.CI !== undefined && env.CI !== '' && env.CI !== 'false';
  return total.failed > 0 || total.passed === 0 || (strict && total.skipped > 0) ? 1 : 0;
}

export function lastLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}
