/** Every workflow of Longhaul: the entry of the bundle that orchestrator workers run. */

export { batch } from './batch.ts';
export { evalSweep } from './eval-sweep.ts';
export { rollout } from './rollout.ts';
export { train } from './train.ts';
export { tinkerModel } from './tinker-model.ts';
