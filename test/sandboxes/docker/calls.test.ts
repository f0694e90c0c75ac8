/** The suites about calls and files, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../files.test.ts');
await import('../isolation.test.ts');
await import('../journal.test.ts');
await import('../shell.test.ts');
