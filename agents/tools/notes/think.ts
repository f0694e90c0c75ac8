/** `think`: the policy writes a thought down. It changes nothing, and answers the same to every thought. */

import { makeTool } from '../tool.ts';

export const think = makeTool({
  name: 'think',
  description: 'Writes down a thought. Nothing happens and nothing is found out: use it to plan or to reason.',
  parameters: { thought: { type: 'string', description: 'The thought.' } },
  required: ['thought'],
  runs: 'worker',
  effect: 'none',
  async run() {
    return await Promise.resolve('Your thought has been noted.');
  },
});
