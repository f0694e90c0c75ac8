/** The suites about folders of tools and the door of a program's model calls, in containers of Podman's service. */

import { overPodman } from '../harness.ts';

await overPodman('socket', [
  () => import('../tools-folder.test.ts'),
  () => import('../hostile/door.test.ts'),
  () => import('../../workflows/rollout/tools-and-gateway.test.ts'),
]);
