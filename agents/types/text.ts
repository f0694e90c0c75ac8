/** The agent that speaks in messages: each goes to the environment's `step`, or is the answer if there is none. */

import type { AgentType } from '../agent.ts';

export const textAgent: AgentType = {
  name: 'text',
  reads: 'text',
  decide: ({ hasStep }) => ({ do: hasStep ? 'step' : 'answer' }),
};
