/**
 * `next_with_summary`: the policy replaces the messages so far by a summary of its own. The agent loop follows the
 * call: it opens the next segment.
 */

import { MOST_SUMMARY_CHARACTERS } from '../../protocol/frames.ts';
import { ToolArgumentError } from './schema/arguments.ts';
import { makeTool } from './tool.ts';

export const NEXT_WITH_SUMMARY = 'next_with_summary';

export const nextWithSummary = makeTool({
  name: NEXT_WITH_SUMMARY,
  description:
    'Continues with the task and this summary alone: all other messages are forgotten. Call it alone in a message.',
  parameters: {
    summary: {
      type: 'string',
      minLength: 1,
      maxLength: MOST_SUMMARY_CHARACTERS,
      description: 'What was done and found, and what is left to do.',
    },
  },
  required: ['summary'],
  runs: 'worker',
  effect: 'none',
  async run() {
    const refused = new ToolArgumentError(NEXT_WITH_SUMMARY, 'summary', 'no summary can be used here.');
    return await Promise.reject(refused);
  },
});
