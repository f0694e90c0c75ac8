/** The tiny Qwen3 policy that the sampler's tests share. */

import { qwen3Dir } from '../tiny-policy.ts';

export const vectorsDir = qwen3Dir;
