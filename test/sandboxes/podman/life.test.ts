/** The suites about a container's life and rights and about the daemon's API, with Podman's service. */

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
