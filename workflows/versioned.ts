/**
 * The bundle's entry for workers with versioning, where several builds run at once: a batch and its rollouts end on the
 * build that they started on. The server refuses this option from a worker without versioning, so it has its own entry.
 */

import { setWorkflowOptions } from '@temporalio/workflow';
import { batch } from './batch.ts';
import { rollout } from './rollout.ts';

setWorkflowOptions({ versioningBehavior: 'PINNED' }, batch);
setWorkflowOptions({ versioningBehavior: 'PINNED' }, rollout);

export { batch, rollout };
export { evalSweep } from './eval-sweep.ts';
export { train } from './train.ts';
export { tinkerModel } from './tinker-model.ts';
