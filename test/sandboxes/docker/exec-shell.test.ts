/** What `../shell.test.ts` hunts, in containers that are reached by `docker exec` alone. */

import { overDocker } from '../harness.ts';

overDocker('exec');
await import('../shell.test.ts');
