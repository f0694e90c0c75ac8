/** `finish`: the policy's word that it is done; the agent loop ends at this call and never waits for its answer. */

import { defineTool } from './tool.ts';

export const finish = defineTool({
  name: 'finish',
  description: 'Ends the task.',
  parameters: { answer: { type: 'string', description: 'The answer, or what was done.' } },
  required: [],
  async run() {
    return await Promise.resolve('Finished.');
  },
});
