/** Temporal's own lines, in tests that make activities and workflows fail on purpose. */

import { DefaultLogger, Runtime } from '@temporalio/worker';

let isQuiet = false;

/** Keeps all but errors out of the tests' output, once per process; `LONGHAUL_TEST_LOG=1` shows them. */
export function quietTemporal(): void {
  if (isQuiet || process.env['LONGHAUL_TEST_LOG'] === '1') return;
  isQuiet = true;
  const filter = { core: 'ERROR', other: 'ERROR' } as const;
  Runtime.install({ logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter, forward: {} } } });
}
