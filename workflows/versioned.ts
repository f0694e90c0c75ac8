/**
 * The entry of the bundle where builds run side by side: a batch and its rollouts end on the build that they began with.
 * A server refuses such a wish from a worker without versioning, so that it has an entry of its own.
 */

import { setWorkflowOptions } from '@temporalio/workflow';
import { batch } from './batch.ts';
import { rollout } from './rollout.ts';

setWorkflowOptions({ versioningBehavior: 'PINNED' }, batch);
setWorkflowOptions({ versioningBehavior: 'PINNED' }, rollout);

export { batch, rollout };
export { evalSweep } from './eval-sweep.ts';
export { train } from './train.ts';
