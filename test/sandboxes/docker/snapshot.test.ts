/** What `../snapshot.test.ts` hunts, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../snapshot.test.ts');
