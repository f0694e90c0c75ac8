/** The suites about folders of tools and the door of a program's model calls, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../tools-folder.test.ts');
await import('../hostile/door.test.ts');
await import('../../workflows/rollout/tools-and-gateway.test.ts');
