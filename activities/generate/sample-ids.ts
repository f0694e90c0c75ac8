/** One turn in token ids: the context only grows, by appended ids, and sampled ids are decoded and parsed once. */

import { PromptTooLong } from '../failures.ts';
import { commandOf, type Deciding, decidingOf } from './decide.ts';
import type { ParsedTurn } from '../../protocol/message.ts';
import { parseToolCalls, type ToolCallFormat, toolCallFormatOf } from '../../agents/parse-tool-calls.ts';
import { type ChatTokenizer, renderContinuation, renderPrompt } from '../../agents/render-conversation.ts';
import { schemasOf } from '../../agents/tools/toolbox.ts';
import type { Store } from '../../store/store.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import { openingMessages } from '../../tasks/opening-messages.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { answerTo, contextAfter, type GenerateRecord, spoken } from '../../protocol/records.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';

/** A policy's tokenizer with what the agent loop asks of it. */
export interface PolicyTokenizer extends ChatTokenizer {
  readonly chatTemplate: string;
  readonly stopTokenIds: readonly number[];
}

/** Where a turn's messages come from. */
export interface TurnDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
}

/** The request for one turn, and its answer, for any kind of sampler. */
export interface IdsCall {
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
}

export interface IdsAnswer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
  readonly finish: 'stop' | 'length' | 'refused' | 'context';
  readonly untrainable?: string;
  /** The text that ended it, if no token did. */
  readonly stopText?: string;
}

/** A finished turn as its agent reads it. Text that cannot be parsed is kept as it was sampled. */
function readTurn(text: string, form: ToolCallFormat, agent: Deciding): Pick<GenerateRecord, 'parsed' | 'command'> {
  const read: ParsedTurn =
    agent.type.reads === 'text' ? { kind: 'no-call', content: text } : parseToolCalls(text, form);
  const parsed = read.kind === 'malformed' ? { ...read, content: text } : read;
  return { parsed, command: commandOf(agent, parsed, form) };
}

interface Prompt {
  readonly appended: readonly number[];
  readonly reset: boolean;
  readonly context: readonly number[];
}

async function promptOf(input: GenerateInput, tokenizer: PolicyTokenizer, { store, tasks }: TurnDeps): Promise<Prompt> {
  const messages = await openingMessages(input, { store, tasks });
  const schemas = schemasOf(await offeredTools(input, { store, tasks }));
  const turns = await turnsOf(store, input);
  const earlier = turns.slice(0, input.turn - 1);
  const last = earlier.at(-1);
  if (!last) {
    const appended = renderPrompt(tokenizer, messages, schemas);
    return { appended, reset: false, context: appended };
  }
  const acts = await actsOf(store, input);
  const added = answerTo(last, acts.get(input.turn - 1));
  const past = contextAfter(earlier);
  const following = renderContinuation(tokenizer, messages, added, schemas);
  // A turn that was ended by a text lacks the token that ends a turn.
  const appended = following && [
    ...(last.stopText === undefined ? [] : tokenizer.encode(tokenizer.endOfTurn)),
    ...following,
  ];
  if (appended) return { appended, reset: false, context: [...past, ...appended] };
  const whole = earlier.flatMap((turn, i) => [spoken(turn), ...answerTo(turn, acts.get(i + 1))]);
  const afresh = renderPrompt(tokenizer, [...messages, ...whole], schemas);
  return { appended: afresh, reset: true, context: afresh };
}

/** What the engine throws, in whichever thread: its context is shorter than the prompt. */
interface ContextTooLong extends Error {
  readonly limit: number;
}

const isTooLong = (error: unknown): error is ContextTooLong =>
  error instanceof Error && error.name === 'ContextTooLong';

/** `undefined` if the engine's context is full. Errors: `PromptTooLong` in the first turn. */
async function unlessTooLong(input: GenerateInput, asked: Promise<IdsAnswer>): Promise<IdsAnswer | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (!isTooLong(error)) throw error;
    if (input.turn === 1) throw new PromptTooLong(input.task, undefined, undefined, error.message);
    return undefined;
  }
}

/**
 * Samples the turn by `ask`, unless the context has no room for it. Errors: `PromptTooLong` in the first turn.
 */
export async function sampleIds(
  input: GenerateInput,
  tokenizer: PolicyTokenizer,
  deps: TurnDeps,
  ask: (call: IdsCall) => Promise<IdsAnswer>,
): Promise<GenerateRecord> {
  const { appended, reset, context } = await promptOf(input, tokenizer, deps);
  const { maxContextTokens = Number.POSITIVE_INFINITY } = input;
  const room = maxContextTokens - context.length;
  const nothing: ParsedTurn = { kind: 'no-call', content: '' };
  const { version } = input.policy;
  const full: GenerateRecord = { version, appended, reset, sampled: [], logprobs: [], end: 'context', parsed: nothing };
  if (room <= 0) {
    if (input.turn === 1) throw new PromptTooLong(input.task, context.length, maxContextTokens);
    return full;
  }
  const { maxTokens } = input.sampling;
  const sampling = { ...input.sampling, maxTokens: Math.min(maxTokens, room) };
  const answer = await unlessTooLong(input, ask({ tokens: context, sampling, stopTokenIds: tokenizer.stopTokenIds }));
  if (answer === undefined) return full;
  const { tokens, logprobs, finish, untrainable, stopText } = answer;
  const stopped = finish === 'stop';
  const text = tokenizer.decode(stopped && stopText === undefined ? tokens.slice(0, -1) : tokens);
  return {
    version,
    appended,
    reset,
    sampled: tokens,
    logprobs,
    temperature: sampling.temperature,
    end: finish === 'length' && room <= maxTokens ? 'context' : finish,
    ...(stopped
      ? readTurn(text, toolCallFormatOf(tokenizer.chatTemplate), await decidingOf(input, deps))
      : { parsed: { kind: 'no-call', content: text } }),
    ...(untrainable === undefined ? {} : { untrainable }),
    ...(stopText === undefined ? {} : { stopText }),
  };
}
