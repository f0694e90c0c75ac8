/** The agent that only writes messages: each goes to the environment's `step`. Without a `step` it is the answer. */

import { z } from 'zod';
import type { AgentType } from '../agent.ts';
import { answeredRequest, summaryOptions, withRequest } from '../summary.ts';

const options = z.strictObject({
  /** Absent: the policy is never asked for a summary. */
  summary: summaryOptions.optional(),
});

export const textAgent: AgentType<z.output<typeof options>> = {
  name: 'text',
  options,
  reads: 'text',
  decide: (view, { summary }) =>
    answeredRequest(view) ?? withRequest({ do: view.hasStep ? 'step' : 'answer' }, view, summary),
};
