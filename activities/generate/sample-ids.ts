/** One turn in token ids: the context only grows, by appended ids, and sampled ids are decoded and parsed once. */

import { PromptTooLong } from '../failures.ts';
import { type AgentAtWork, agentAtWork, type Decided, decided, type Earlier, type TurnDeps } from './agent-at-work.ts';
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
import type { SamplingParameters } from '../../protocol/sampling.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { contextAfter, spoken } from '../../protocol/transcript.ts';

/** A policy's tokenizer with what the agent loop asks of it. */
export interface PolicyTokenizer extends ChatTokenizer {
  readonly chatTemplate: string;
  readonly stopTokenIds: readonly number[];
}

/** The request for one turn, and its answer, for any kind of sampler. */
export interface IdsCall {
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** Seeds the sampling. Absent: the turn's own key does. */
  readonly noiseKey?: string;
}

export interface IdsAnswer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
  readonly finish: 'stop' | 'length' | 'refused' | 'context';
  readonly untrainable?: string;
  /** The text that ended it, if no token did. */
  readonly stopText?: string;
}

/** Tokens of a prompt's end that show whether the template opened the reasoning. */
const PROMPT_END = 8;

/** How one agent's conversation is written for one policy. */
class Writer {
  readonly form: ConversationForm;
  readonly tools: readonly ToolSchema[];
  readonly #tokenizer: PolicyTokenizer;
  readonly #reasoning: NonNullable<GenerateInput['conversation']>['reasoning'];

  constructor(tokenizer: PolicyTokenizer, agent: AgentAtWork, { conversation = {} }: GenerateInput) {
    this.#tokenizer = tokenizer;
    this.form = conversationForm(tokenizer, conversation);
    this.tools = schemasOf(agent.tools);
    this.#reasoning = conversation.reasoning;
  }

  prompt(messages: readonly Message[]): number[] {
    const whole = this.form.whole(messages, this.tools);
    return renderPrompt(this.#tokenizer, whole.messages, whole.tools);
  }

  /** True if the template opened the reasoning, so that the policy's text begins inside of it. */
  opensReasoning(prompt: readonly number[]): boolean {
    return opensReasoning(this.#tokenizer.decode(prompt.slice(-PROMPT_END)));
  }

  /** A turn's message as later prompts have it. */
  spoken(record: GenerateRecord): Message {
    const message = spoken(record);
    if (this.#reasoning !== 'remove') return message;
    const inReasoning = this.opensReasoning(record.appended);
    return { ...message, content: withoutReasoning(message.content, this.form.codec, { inReasoning }) };
  }

  /** The ids after the last turn; `undefined` if earlier text changes. */
  following(opening: readonly Message[], { record, received }: Earlier): number[] | undefined {
    // Text without its reasoning is another text.
    if (this.spoken(record).content !== spoken(record).content) return undefined;
    const { messages, tools } = this.form.whole(opening, this.tools);
    const render = this.#reasoning === undefined ? renderContinuation : renderAfterTurn;
    const ids = render(this.#tokenizer, messages, this.form.added(received), tools);
    // A turn that was ended by a text lacks the token that ends a turn.
    return ids && [...(record.stopText === undefined ? [] : this.#tokenizer.encode(this.#tokenizer.endOfTurn)), ...ids];
  }
}

/** A finished turn as its agent reads it. Text that cannot be parsed is kept as it was sampled. */
function readTurn(text: string, prompt: Prompt, sampledTokens: number, writer: Writer, agent: AgentAtWork): Decided {
  const { codec } = writer.form;
  const inReasoning = writer.opensReasoning(prompt.appended);
  const read: ParsedTurn =
    agent.type.reads === 'text'
      ? { kind: 'no-call', content: text }
      : parseTurn(text, codec, { tools: writer.tools, inReasoning });
  const parsed = read.kind === 'malformed' ? { ...read, content: text } : read;
  const contextTokens = prompt.context.length + sampledTokens;
  return decided(agent, {
    parsed,
    form: codec.name,
    contextTokens,
    sizeOf: (messages) => writer.prompt(messages).length,
  });
}

interface Prompt {
  readonly appended: readonly number[];
  readonly reset: boolean;
  readonly context: readonly number[];
}

function promptOf({ opening, earlier, isShortened }: AgentAtWork, writer: Writer): Prompt {
  const last = earlier.at(-1);
  if (!last) {
    const appended = writer.prompt(opening);
    return { appended, reset: false, context: appended };
  }
  const appended = isShortened ? undefined : writer.following(opening, last);
  const past = contextAfter(earlier.map(({ record }) => record));
  if (appended) return { appended, reset: false, context: [...past, ...appended] };
  const said = earlier.flatMap(({ record, received }) => [writer.spoken(record), ...received]);
  const afresh = writer.prompt([...opening, ...said]);
  return { appended: afresh, reset: true, context: afresh };
}

/** Tokens of the prompt of the turn. Errors: those of `agentAtWork`, and of writing the conversation. */
export async function promptTokens(input: GenerateInput, tokenizer: PolicyTokenizer, deps: TurnDeps): Promise<number> {
  const agent = await agentAtWork(input, deps);
  return promptOf(agent, new Writer(tokenizer, agent, input)).context.length;
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
  const agent = await agentAtWork(input, deps);
  const writer = new Writer(tokenizer, agent, input);
  const prompt = promptOf(agent, writer);
  const { appended, reset, context } = prompt;
  const base = { ...agent.place, version: input.policy.version, appended, reset };
  const { maxContextTokens = Number.POSITIVE_INFINITY } = input;
  const room = maxContextTokens - context.length;
  const nothing: ParsedTurn = { kind: 'no-call', content: '' };
  const full: GenerateRecord = { ...base, sampled: [], logprobs: [], end: 'context', parsed: nothing };
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
    ...base,
    sampled: tokens,
    logprobs,
    temperature: sampling.temperature,
    ...(stopped
      ? readTurn(text, prompt, tokens.length, writer, agent)
      : {
          end: finish === 'length' && room <= maxTokens ? 'context' : finish,
          parsed: { kind: 'no-call', content: text },
        }),
    ...(untrainable === undefined ? {} : { untrainable }),
    ...(stopText === undefined ? {} : { stopText }),
  };
}
