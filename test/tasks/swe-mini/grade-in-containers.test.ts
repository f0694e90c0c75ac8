/** `grade.test.ts` in containers: a task and its grading do not depend on the kind of sandbox. */

import { overDocker } from '../../sandboxes/harness.ts';

overDocker('socket');
await import('./grade.test.ts');
