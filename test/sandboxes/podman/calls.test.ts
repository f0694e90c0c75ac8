/** The suites about calls, files and limits, in containers of Podman's service. */

import { overPodman } from '../harness.ts';

await overPodman('socket', [
  () => import('../files.test.ts'),
  () => import('../isolation.test.ts'),
  () => import('../journal.test.ts'),
  () => import('../limits.test.ts'),
  () => import('../shell.test.ts'),
]);
