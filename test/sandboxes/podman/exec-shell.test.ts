/** `../shell.test.ts` in containers of Podman's service that are reached only by exec. */

import { overPodman } from '../harness.ts';

await overPodman('exec', [() => import('../shell.test.ts')]);
