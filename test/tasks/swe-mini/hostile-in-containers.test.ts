/** What `hostile.test.ts` hunts, in containers. */

import { overDocker } from '../../sandboxes/harness.ts';

overDocker('socket');
await import('./hostile.test.ts');
