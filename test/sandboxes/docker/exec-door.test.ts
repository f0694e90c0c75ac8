/** The door of a program's model calls, in containers that are reached only by `docker exec`. */

import { overDocker } from '../harness.ts';

overDocker('exec');
await import('../hostile/door.test.ts');
