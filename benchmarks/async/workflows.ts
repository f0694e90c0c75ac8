/** The bundle of `bench async`: the real workflows of a run. */

export { batch } from '../../workflows/batch.ts';
export { rollout } from '../../workflows/rollout.ts';
export { train } from '../../workflows/train.ts';
