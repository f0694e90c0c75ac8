/** What the suites hunt in the life of a container, in what it may do and in the daemon's API, with Podman's service. */

import { overPodman } from '../harness.ts';

await overPodman('socket', [
  () => import('../docker/hardening.test.ts'),
  () => import('../docker/lifecycle.test.ts'),
  () => import('../docker/traps.test.ts'),
  () => import('../snapshot.test.ts'),
  () => import('../sweep.test.ts'),
  () => import('../warm-pool.test.ts'),
  () => import('../workspace-digest.test.ts'),
]);
