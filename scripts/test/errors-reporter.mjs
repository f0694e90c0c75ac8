/** Errors outside of any test, which vitest's JSON report leaves out: how many, in the file `$LONGHAUL_TEST_ERRORS`. */

import { writeFileSync } from 'node:fs';

export default class ErrorsReporter {
  onTestRunEnd(_modules, unhandled) {
    writeFileSync(process.env.LONGHAUL_TEST_ERRORS, String(unhandled.length));
  }
}
