/** What `grading-ends.test.ts` hunts, in containers. */

import { overDocker } from '../../sandboxes/harness.ts';

overDocker('socket');
await import('./grading-ends.test.ts');
