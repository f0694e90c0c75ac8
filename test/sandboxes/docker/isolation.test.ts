/** What `../isolation.test.ts` hunts, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../isolation.test.ts');
