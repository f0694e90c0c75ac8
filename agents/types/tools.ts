/** The agent that acts by tool calls, and ends with the call `finish`. */

import { z } from 'zod';
import type { Command } from '../../protocol/command.ts';
import type { AgentType, TurnView } from '../agent.ts';
import { malformedCallHint, noCallHint } from '../hints.ts';
import { answeredRequest, calledSummary, summaryOptions, withRequest } from '../summary.ts';
import { DELEGATE } from '../tools/delegate.ts';
import { NEXT_WITH_SUMMARY } from '../tools/next-with-summary.ts';
import { nameOfTool } from '../tools/toolbox.ts';

const options = z.strictObject({
  /**
   * What a message without a call means. `hint`: a mistake, and the policy receives a hint. `answer`: the answer, which
   * ends the rollout. `step`: it goes to the environment's `step`; without one it is the answer. Absent: `hint` if the
   * task offers `finish`, else `answer`.
   */
  message: z.enum(['hint', 'answer', 'step']).optional(),
  /** Absent: the policy is never asked for a summary. */
  summary: summaryOptions.optional(),
});

/** The call at `index` lets a sub-agent work. Arguments that cannot be used are refused by the tool itself. */
function delegated({ parsed, agents }: TurnView, index: number): Command {
  const given = parsed.kind === 'calls' ? parsed.calls[index]?.arguments : undefined;
  const { agent: name, prompt } = given ?? {};
  const agent = typeof name === 'string' && Object.hasOwn(agents, name) ? agents[name] : undefined;
  if (typeof name !== 'string' || agent === undefined || typeof prompt !== 'string' || prompt.trim() === '')
    return { do: 'act' };
  return {
    do: 'delegate',
    name,
    agent: agent.agent ?? { type: agent.tools.length > 0 ? 'tools' : 'text' },
    tools: agent.tools.map(nameOfTool),
    messages: [...(agent.messages ?? []), { role: 'user', content: prompt }],
    call: index,
  };
}

/** The first call that ends the agent's part decides; those before it run. */
function afterCalls(view: TurnView): Command {
  const { parsed, tools } = view;
  const calls = parsed.kind === 'calls' ? parsed.calls : [];
  const decisive = ['finish', DELEGATE, NEXT_WITH_SUMMARY].filter((name) => tools.includes(name));
  const index = calls.findIndex(({ name }) => decisive.includes(name));
  switch (calls[index]?.name) {
    case 'finish':
      return { do: 'finish' };
    case DELEGATE:
      return delegated(view, index);
    case NEXT_WITH_SUMMARY:
      return calledSummary(view);
    default:
      return { do: 'act' };
  }
}

export const toolsAgent: AgentType<z.output<typeof options>> = {
  name: 'tools',
  options,
  reads: 'calls',

  decide(view, { message = view.tools.includes('finish') ? 'hint' : 'answer', summary }) {
    const { parsed, form } = view;
    const answered = answeredRequest(view);
    if (answered !== undefined) return answered;
    switch (parsed.kind) {
      case 'calls':
        return withRequest(afterCalls(view), view, summary);
      case 'malformed':
        return withRequest({ do: 'reply', message: malformedCallHint(form, parsed.error) }, view, summary);
      case 'no-call':
        if (message === 'step' && view.hasStep) return withRequest({ do: 'step' }, view, summary);
        return message !== 'hint'
          ? { do: 'answer' }
          : withRequest({ do: 'reply', message: noCallHint(form) }, view, summary);
    }
  },
};
