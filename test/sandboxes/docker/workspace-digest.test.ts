/** What `../workspace-digest.test.ts` hunts, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../workspace-digest.test.ts');
