/** The machine that problems of swe-mini live on: the same for the agent and for the grader. */

import type { SandboxLimits } from '../../sandboxes/sandbox.ts';

export const WORKDIR = '/work';

export const LIMITS: SandboxLimits = { memoryMiB: 256, processes: 64, diskMiB: 32 };
