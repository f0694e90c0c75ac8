/** The agent that only writes messages: each goes to the environment's `step`. Without a `step` it is the answer. */

import type { AgentType } from '../agent.ts';

export const textAgent: AgentType = {
  name: 'text',
  reads: 'text',
  decide: ({ hasStep }) => ({ do: hasStep ? 'step' : 'answer' }),
};
