/** The suites about a sandbox's life, in containers. */

import { overDocker } from '../harness.ts';

overDocker('socket');
await import('../snapshot.test.ts');
await import('../sweep.test.ts');
await import('../warm-pool.test.ts');
await import('../workspace-digest.test.ts');
