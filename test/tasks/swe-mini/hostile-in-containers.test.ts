/** `hostile.test.ts` in containers. */

import { overDocker } from '../../sandboxes/harness.ts';

overDocker('socket');
await import('./hostile.test.ts');
