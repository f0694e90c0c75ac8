/** What `../warm-pool.test.ts` hunts, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../warm-pool.test.ts');
