/** What `../limits.test.ts` hunts, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../limits.test.ts');
