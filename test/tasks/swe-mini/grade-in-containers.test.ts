/** What `grade.test.ts` hunts, in containers: a task is the same, and is graded the same, whatever isolates it. */

import { overDocker } from '../../sandboxes/harness.ts';

overDocker('socket');
await import('./grade.test.ts');
