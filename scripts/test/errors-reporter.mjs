/** Writes the number of errors outside of tests to `$LONGHAUL_TEST_ERRORS`: vitest's JSON report does not have them. */

import { writeFileSync } from 'node:fs';

export default class ErrorsReporter {
  onTestRunEnd(_modules, unhandled) {
    writeFileSync(process.env.LONGHAUL_TEST_ERRORS, String(unhandled.length));
  }
}
