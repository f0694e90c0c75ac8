/**
 * `finish`: with this call the policy ends the task. The agent loop ends without waiting for its answer, unless an
 * earlier call in the same message was refused: the policy did not know about that failure when it called `finish`.
 */

import { makeTool } from './tool.ts';

/** The answer of `finish` in that case, of the call of a sub-agent in the same case, and of the calls after it. */
export const NOT_FINISHED = 'Error: not finished, since a call before it failed.';
export const NOT_CALLED = 'Error: not called, since a call before it failed.';
export const AFTER_FINISH = 'Error: not run, since it comes after finish.';

export const finish = makeTool({
  name: 'finish',
  description: 'Ends the task.',
  parameters: { answer: { type: 'string', description: 'The answer, or what was done.' } },
  required: [],
  runs: 'worker',
  effect: 'none',
  async run() {
    return await Promise.resolve('Finished.');
  },
});
