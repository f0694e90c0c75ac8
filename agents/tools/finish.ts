/**
 * `finish`: the policy's word that it is done. The agent loop ends at this call and never waits for its answer, unless a
 * call before it in the same message was refused: what the policy has not seen, it does not mean to finish on.
 */

import { makeTool } from './tool.ts';

/** What it is answered then, and what the calls after it are. */
export const NOT_FINISHED = 'Error: not finished, since a call before it failed.';
export const AFTER_FINISH = 'Error: not run, since it comes after finish.';

export const finish = makeTool({
  name: 'finish',
  description: 'Ends the task.',
  parameters: { answer: { type: 'string', description: 'The answer, or what was done.' } },
  required: [],
  async run() {
    return await Promise.resolve('Finished.');
  },
});
