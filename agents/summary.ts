/** Summaries of an agent's history: when the policy is asked for one, and how its answer is read. Pure. */

import { z } from 'zod';
import type { Command } from '../protocol/command.ts';
import { MOST_SUMMARY_CHARACTERS } from '../protocol/frames.ts';
import { afterReasoning } from '../protocol/transcript.ts';
import type { TurnView } from './agent.ts';
import { NEXT_WITH_SUMMARY } from './tools/next-with-summary.ts';

export const summaryOptions = z.strictObject({
  /** The policy is asked for a summary after a turn with at least so many tokens of context. */
  atTokens: z.int().min(1),
});

export type SummaryOptions = z.output<typeof summaryOptions>;

export const SUMMARY_REQUEST =
  'Your context is nearly full. Answer with a summary alone, without a call: what was done and found, ' +
  'and what is left to do. You continue with the task and this summary.';
const NOT_USABLE = `The summary is empty or too long. Write it as text, at most ${MOST_SUMMARY_CHARACTERS} characters.`;

const lastMessage = ({ earlier }: TurnView): string => {
  const last = earlier.at(-1);
  return last !== undefined && 'message' in last ? (last.message ?? '') : '';
};

/** True for a message that the next turn must answer with a summary. */
export const asksForSummary = (message: string): boolean => message === NOT_USABLE || message.endsWith(SUMMARY_REQUEST);

const isUsable = (summary: string): boolean => summary !== '' && summary.length <= MOST_SUMMARY_CHARACTERS;

/** The summary that the turn's call `next_with_summary` gives. `undefined` without a text in such a call. */
function callIn({ parsed }: TurnView): string | undefined {
  const calls = parsed.kind === 'calls' ? parsed.calls : [];
  const given = calls.find(({ name }) => name === NEXT_WITH_SUMMARY)?.arguments['summary'];
  return typeof given === 'string' ? given : undefined;
}

/** The command for a turn that answers the request. `undefined` if there was none. */
export function answeredRequest(view: TurnView): Command | undefined {
  const asked = lastMessage(view);
  const isAgain = asked.includes(NOT_USABLE);
  if (!asksForSummary(asked)) return undefined;
  const summary = callIn(view)?.trim() ?? afterReasoning(view.parsed.content);
  // An unusable one ends the context: the policy is asked twice, and no more.
  return isUsable(summary) || isAgain ? { do: 'summarise', summary } : { do: 'reply', message: NOT_USABLE };
}

/** The command, with the request for a summary if the context has become long enough for it. */
export function withRequest(command: Command, view: TurnView, options: SummaryOptions | undefined): Command {
  if (options === undefined || view.contextTokens < options.atTokens || view.segmentsLeft < 1 || view.turnsLeft < 2)
    return command;
  if (command.do === 'act' || command.do === 'step') return { ...command, message: SUMMARY_REQUEST };
  if (command.do === 'reply') return { do: 'reply', message: `${command.message}\n\n${SUMMARY_REQUEST}` };
  return command;
}

/** The command for the call `next_with_summary`. */
export function calledSummary(view: TurnView): Command {
  const { parsed, segment, segmentsLeft } = view;
  const summary = (callIn(view) ?? '').trim();
  const wrong =
    parsed.kind === 'calls' && parsed.calls.length > 1
      ? 'call it alone in a message.'
      : segmentsLeft < 1
        ? `${segment} segments are the limit; continue without a summary.`
        : isUsable(summary)
          ? undefined
          : `give a summary of 1 to ${MOST_SUMMARY_CHARACTERS} characters.`;
  if (wrong !== undefined) return { do: 'reply', message: `Error: not summarised: ${wrong}` };
  return { do: 'summarise', summary };
}
