/** What `../sweep.test.ts` hunts, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../sweep.test.ts');
