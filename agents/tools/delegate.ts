/**
 * `delegate`: the policy lets another agent work, which the task offers by name. The agent loop follows the call, and
 * the sub-agent's answer is its observation. Without such an agent the call is refused.
 */

import { ToolArgumentError } from './schema/arguments.ts';
import { makeTool, type Tool } from './tool.ts';

export const DELEGATE = 'delegate';

/** `agents`: descriptions by name. */
export function delegateTo(agents: Readonly<Record<string, string>>): Tool {
  const names = Object.keys(agents);
  const which = Object.entries(agents).map(([name, description]) => `${name}: ${description}`);
  return makeTool({
    name: DELEGATE,
    description: 'Lets another agent do a part of the task, and returns its answer. The agent sees only the prompt.',
    parameters: {
      agent: {
        type: 'string',
        ...(names.length > 0 && { enum: names }),
        description: `The agent's name. ${which.join(' ')}`.trim(),
      },
      prompt: { type: 'string', minLength: 1, description: 'What it must do, with all that it must know.' },
    },
    required: ['agent', 'prompt'],
    runs: 'worker',
    effect: 'none',
    async run(args) {
      const blank = args.text('prompt').trim() === '';
      const wrong = blank ? 'prompt: say what the agent must do.' : 'no agent can be called here.';
      return await Promise.reject(new ToolArgumentError(DELEGATE, 'prompt', wrong));
    },
  });
}

export const delegate = delegateTo({});
