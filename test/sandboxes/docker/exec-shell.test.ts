/** `../shell.test.ts` in containers that are reached only by `docker exec`. */

import { overDocker } from '../harness.ts';

overDocker('exec');
await import('../shell.test.ts');
