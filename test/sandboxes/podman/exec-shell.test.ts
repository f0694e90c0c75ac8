/** What `../shell.test.ts` hunts, in containers of Podman's service that are reached by exec alone. */

import { overPodman } from '../harness.ts';

await overPodman('exec', [() => import('../shell.test.ts')]);
