/** One turn in token ids: the context only grows, by appended ids, and sampled ids are decoded and parsed once. */

import { commandOf, type Deciding, decidingOf } from './decide.ts';
import type { Message, ParsedTurn, ToolSchema } from '../../protocol/message.ts';
import { opensReasoning, parseTurn, withoutReasoning } from '../../agents/codecs/codec.ts';
import { type ConversationForm, conversationForm } from '../../agents/conversation-form.ts';
import {
  type ChatTokenizer,
  renderAfterTurn,
  renderContinuation,
  renderPrompt,
} from '../../agents/render-conversation.ts';
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
  readonly finish: 'stop' | 'length' | 'refused' | 'context-full';
  readonly untrainable?: string;
  /** The text that ended it, if no token did. */
  readonly stopText?: string;
}

/** Tokens of a prompt's end that show whether the template opened the reasoning. */
const PROMPT_END = 8;

const isInReasoning = (tokenizer: PolicyTokenizer, prompt: readonly number[]): boolean =>
  opensReasoning(tokenizer.decode(prompt.slice(-PROMPT_END)));

/** A finished turn as its agent reads it. Text that cannot be parsed is kept as it was sampled. */
function readTurn(
  text: string,
  { form, tools, inReasoning }: Pick<Prompt, 'form' | 'tools' | 'inReasoning'>,
  agent: Deciding,
): Pick<GenerateRecord, 'parsed' | 'command'> {
  const read: ParsedTurn =
    agent.type.reads === 'text'
      ? { kind: 'no-call', content: text }
      : parseTurn(text, form.codec, { tools, inReasoning });
  const parsed = read.kind === 'malformed' ? { ...read, content: text } : read;
  return { parsed, command: commandOf(agent, parsed, form.codec.name) };
}

interface Prompt {
  readonly appended: readonly number[];
  readonly reset: boolean;
  readonly context: readonly number[];
  readonly form: ConversationForm;
  readonly tools: readonly ToolSchema[];
  /** True if the template has opened the reasoning: the policy's text begins inside of it. */
  readonly inReasoning: boolean;
}

/** A turn's message without its reasoning. */
function unreasoned(turn: GenerateRecord, { codec }: ConversationForm, tokenizer: PolicyTokenizer): Message {
  const message = spoken(turn);
  const inReasoning = isInReasoning(tokenizer, turn.appended);
  return { ...message, content: withoutReasoning(message.content, codec, { inReasoning }) };
}

/** The ids after the last turn; `undefined` if earlier text changes. */
function following(
  input: GenerateInput,
  last: GenerateRecord,
  added: readonly Message[],
  { messages, tools }: ReturnType<ConversationForm['whole']>,
  tokenizer: PolicyTokenizer,
): number[] | undefined {
  const { reasoning } = input.conversation ?? {};
  const render = reasoning === undefined ? renderContinuation : renderAfterTurn;
  const ids = render(tokenizer, messages, added, tools);
  // A turn that was ended by a text lacks the token that ends a turn.
  return ids && [...(last.stopText === undefined ? [] : tokenizer.encode(tokenizer.endOfTurn)), ...ids];
}

async function promptOf(input: GenerateInput, tokenizer: PolicyTokenizer, { store, tasks }: TurnDeps): Promise<Prompt> {
  const form = conversationForm(tokenizer, input.conversation ?? {});
  const messages = await openingMessages(input, { store, tasks });
  const schemas = schemasOf(await offeredTools(input, { store, tasks }));
  const made = (appended: readonly number[], reset: boolean, context: readonly number[]): Prompt => {
    return { appended, reset, context, form, tools: schemas, inReasoning: isInReasoning(tokenizer, context) };
  };
  const prompt = (said: readonly Message[]): number[] => {
    const whole = form.whole(said, schemas);
    return renderPrompt(tokenizer, whole.messages, whole.tools);
  };
  const turns = await turnsOf(store, input);
  const earlier = turns.slice(0, input.turn - 1);
  const last = earlier.at(-1);
  if (!last) {
    const first = prompt(messages);
    return made(first, false, first);
  }
  const acts = await actsOf(store, input);
  const removes = input.conversation?.reasoning === 'remove';
  const spokenIn = (turn: GenerateRecord) => (removes ? unreasoned(turn, form, tokenizer) : spoken(turn));
  // Text without its reasoning is another text: earlier ids start again.
  const isChanged = removes && spokenIn(last).content !== spoken(last).content;
  const added = form.added(answerTo(last, acts.get(input.turn - 1)));
  const appended = isChanged ? undefined : following(input, last, added, form.whole(messages, schemas), tokenizer);
  if (appended) return made(appended, false, [...contextAfter(earlier), ...appended]);
  const whole = earlier.flatMap((turn, i) => [spokenIn(turn), ...answerTo(turn, acts.get(i + 1))]);
  const afresh = prompt([...messages, ...whole]);
  return made(afresh, true, afresh);
}

/** Samples the turn by `ask`, unless the context has no room for it. */
export async function sampleIds(
  input: GenerateInput,
  tokenizer: PolicyTokenizer,
  deps: TurnDeps,
  ask: (call: IdsCall) => Promise<IdsAnswer>,
): Promise<GenerateRecord> {
  const prompt = await promptOf(input, tokenizer, deps);
  const { appended, reset, context } = prompt;
  const room = input.maxContextTokens - context.length;
  const nothing: ParsedTurn = { kind: 'no-call', content: '' };
  const { version } = input.policy;
  if (room <= 0) {
    return { version, appended, reset, sampled: [], logprobs: [], end: 'context-full', parsed: nothing };
  }
  const { maxTokens } = input.sampling;
  const sampling = { ...input.sampling, maxTokens: Math.min(maxTokens, room) };
  const { tokens, logprobs, finish, untrainable, stopText } = await ask({
    tokens: context,
    sampling,
    stopTokenIds: tokenizer.stopTokenIds,
  });
  const stopped = finish === 'stop';
  const text = tokenizer.decode(stopped && stopText === undefined ? tokens.slice(0, -1) : tokens);
  return {
    version,
    appended,
    reset,
    sampled: tokens,
    logprobs,
    temperature: sampling.temperature,
    end: finish === 'length' && room <= maxTokens ? 'context-full' : finish,
    ...(stopped
      ? readTurn(text, prompt, await decidingOf(input, deps))
      : { parsed: { kind: 'no-call', content: text } }),
    ...(untrainable === undefined ? {} : { untrainable }),
    ...(stopText === undefined ? {} : { stopText }),
  };
}
