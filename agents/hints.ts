/**
 * Hints: what the policy reads if its turn had no usable call, if it repeats itself, or if it is near an end. Texts
 * are short and stable. Pure: the same transcript gives the same hints.
 */

import { closest } from '../protocol/closest.ts';
import type { Command } from '../protocol/command.ts';
import type { CodecName } from '../protocol/conversation.ts';
import { DEFAULT_HINTS, type HintRule, type HintSettings } from '../protocol/hints.ts';
import { argumentsText, type ParsedTurn } from '../protocol/message.ts';
import { codecNamed } from './codecs/codecs.ts';
import { asksForSummary } from './summary.ts';

export function noCallHint(form: CodecName): string {
  return form === 'server'
    ? 'No tool call found. Call one of the tools, and the finish tool when done.'
    : `No tool call found. Use this form, and the finish tool when done:\n${codecNamed(form).form}`;
}

export function malformedCallHint(form: CodecName, error: string): string {
  return form === 'server'
    ? `The tool call could not be read. ${error} Give the arguments as one JSON object.`
    : `The tool call could not be read: ${error} Use this form:\n${codecNamed(form).form}`;
}

/** A turn, and the earlier ones of the same agent in the same context. */
export interface HintView {
  readonly parsed: ParsedTurn;
  /** Oldest first. */
  readonly earlier: readonly ParsedTurn[];
  /** Names of the tools that the agent may call. */
  readonly tools: readonly string[];
  /** `text`: the agent has no calls, and no rule about calls applies. */
  readonly reads: 'calls' | 'text';
  readonly turnsLeft: number;
  readonly contextTokensLeft: number;
}

export interface Hint {
  readonly rule: HintRule;
  readonly text: string;
}

const SHOWN = 80;

/** The calls of a turn as one text; `undefined` for a turn without calls. */
function actionOf(parsed: ParsedTurn): string | undefined {
  if (parsed.kind !== 'calls') return undefined;
  return parsed.calls.map((call) => `${call.name} ${argumentsText(call)}`).join('\n');
}

const short = (action: string): string => (action.length > SHOWN ? `${action.slice(0, SHOWN)}…` : action);

/** How many of the last items fulfil `holds`, which gets the index. */
function streak(length: number, holds: (index: number) => boolean): number {
  let index = length - 1;
  while (index >= 0 && holds(index)) index -= 1;
  return length - 1 - index;
}

/** True at `every`, and again after as many more. */
const isDue = (count: number, every: number): boolean => every > 0 && count > 0 && count % every === 0;

/** Turns at the end that are two different actions in turn. */
function alternation(actions: ReadonlyArray<string | undefined>): number {
  const [last, before] = [actions.at(-1), actions.at(-2)];
  if (last === undefined || before === undefined || last === before) return 0;
  return streak(actions.length, (i) => actions[i] === ((actions.length - 1 - i) % 2 === 0 ? last : before));
}

function ofCalls(
  { parsed, earlier, tools }: HintView,
  { unknownTool, sameAction, alternating, monologue }: HintSettings,
): Hint[] {
  const hints: Hint[] = [];
  const turns = [...earlier, parsed];
  const actions = turns.map(actionOf);
  const action = actions.at(-1);
  const unknown = parsed.kind === 'calls' ? parsed.calls.find(({ name }) => !tools.includes(name))?.name : undefined;
  if (unknownTool && unknown !== undefined) {
    const meant = closest(unknown, tools);
    const remedy = meant === undefined ? '' : ` Did you mean ${meant}?`;
    const text = `There is no tool ${JSON.stringify(short(unknown))}.${remedy} The tools are ${tools.join(', ')}.`;
    hints.push({ rule: 'unknownTool', text });
  }
  if (action === undefined) {
    const silent = streak(turns.length, (i) => turns[i]?.kind !== 'calls');
    if (isDue(silent, monologue))
      hints.push({ rule: 'monologue', text: `Your last ${silent} messages have no call that ran. Act: call a tool.` });
    return hints;
  }
  const same = streak(actions.length, (i) => actions[i] === action);
  if (isDue(same, sameAction))
    hints.push({
      rule: 'sameAction',
      text: `You have made the same call ${same} times: ${short(action)}. Try something else.`,
    });
  const turned = alternation(actions);
  if (isDue(turned, 2 * alternating))
    hints.push({
      rule: 'alternating',
      text:
        `You have made the same two calls in turn, ${turned / 2} times each: ${short(actions.at(-2) ?? '')} and ` +
        `${short(action)}. Try something else.`,
    });
  return hints;
}

/** The hints beside those for turns that could not be used. After the last turn nobody reads one. */
export function hintsFor(view: HintView, settings: HintSettings): Hint[] {
  const { turnsLeft, contextTokensLeft, reads } = view;
  if (turnsLeft < 1 || contextTokensLeft < 1) return [];
  const hints = reads === 'calls' ? ofCalls(view, settings) : [];
  if (turnsLeft <= settings.turnsLeft) hints.push({ rule: 'turnsLeft', text: `Turns left: ${turnsLeft}.` });
  if (contextTokensLeft <= settings.tokensLeft)
    hints.push({ rule: 'tokensLeft', text: `Tokens left: about ${contextTokensLeft}. Come to an end.` });
  return hints;
}

/** Rules whose text is the agent's own reply. */
function inReply(command: Command, { parsed, reads }: HintView): HintRule[] {
  if (command.do !== 'reply' || reads !== 'calls') return [];
  if (parsed.kind === 'malformed') return ['parseError'];
  return parsed.kind === 'no-call' ? ['noCall'] : [];
}

/**
 * The agent's command with the hints for its turn, and the rules that applied. A policy that is asked for a summary is
 * not told anything else.
 */
export function withHints(
  command: Command,
  view: HintView,
  given: Partial<HintSettings> = {},
): { readonly command: Command; readonly hints: readonly HintRule[] } {
  if (command.do !== 'act' && command.do !== 'reply' && command.do !== 'step') return { command, hints: [] };
  if (command.message !== undefined && asksForSummary(command.message)) return { command, hints: [] };
  const hints = hintsFor(view, { ...DEFAULT_HINTS, ...given });
  const rules = [...inReply(command, view), ...hints.map(({ rule }) => rule)];
  if (hints.length === 0) return { command, hints: rules };
  const texts = [...(command.message === undefined ? [] : [command.message]), ...hints.map(({ text }) => text)];
  return { command: { ...command, message: texts.join('\n\n') }, hints: rules };
}
