/** `../limits.test.ts` in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../limits.test.ts');
