/** The agent that acts by tool calls, and ends with the call `finish`. */

import { z } from 'zod';
import type { AgentType } from '../agent.ts';
import { malformedCallHint, noCallHint } from '../hints.ts';

const options = z.strictObject({
  /**
   * What a message without a call means. `hint`: a mistake, and the policy receives a hint. `answer`: the answer, which
   * ends the rollout. Absent: `hint` if the task offers `finish`, else `answer`.
   */
  message: z.enum(['hint', 'answer']).optional(),
});

export const toolsAgent: AgentType<z.output<typeof options>> = {
  name: 'tools',
  options,
  reads: 'calls',

  decide({ parsed, form, tools }, { message = tools.includes('finish') ? 'hint' : 'answer' }) {
    switch (parsed.kind) {
      case 'calls':
        return parsed.calls.some(({ name }) => name === 'finish') && tools.includes('finish')
          ? { do: 'finish' }
          : { do: 'act' };
      case 'malformed':
        return { do: 'tell', message: malformedCallHint(form, parsed.error) };
      case 'no-call':
        return message === 'answer' ? { do: 'answer' } : { do: 'tell', message: noCallHint(form) };
    }
  },
};
