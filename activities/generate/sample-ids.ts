/** One turn in token ids: the context only grows, by appended ids, and sampled ids are decoded and parsed once. */

import { type AgentAtWork, agentAtWork, type Decided, decided, messagesOf, type TurnDeps } from './agent-at-work.ts';
import type { Message, ParsedTurn } from '../../protocol/message.ts';
import { parseToolCalls, toolCallFormatOf } from '../../agents/parse-tool-calls.ts';
import { type ChatTokenizer, renderContinuation, renderPrompt } from '../../agents/render-conversation.ts';
import { schemasOf } from '../../agents/tools/toolbox.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { contextAfter } from '../../protocol/transcript.ts';

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
}

export interface IdsAnswer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
  readonly finish: 'stop' | 'length' | 'refused' | 'context-full';
  readonly untrainable?: string;
  /** The text that ended it, if no token did. */
  readonly stopText?: string;
}

/** A finished turn as its agent reads it. Text that cannot be parsed is kept as it was sampled. */
function readTurn(text: string, contextTokens: number, tokenizer: PolicyTokenizer, agent: AgentAtWork): Decided {
  const form = toolCallFormatOf(tokenizer.chatTemplate);
  const read: ParsedTurn =
    agent.type.reads === 'text' ? { kind: 'no-call', content: text } : parseToolCalls(text, form);
  const parsed = read.kind === 'malformed' ? { ...read, content: text } : read;
  const sizeOf = (messages: readonly Message[]) => renderPrompt(tokenizer, messages, schemasOf(agent.tools)).length;
  return decided(agent, { parsed, form, contextTokens, sizeOf });
}

interface Prompt {
  readonly appended: readonly number[];
  readonly reset: boolean;
  readonly context: readonly number[];
}

function promptOf(agent: AgentAtWork, tokenizer: PolicyTokenizer): Prompt {
  const { opening, earlier } = agent;
  const schemas = schemasOf(agent.tools);
  const last = earlier.at(-1);
  if (!last) {
    const appended = renderPrompt(tokenizer, opening, schemas);
    return { appended, reset: false, context: appended };
  }
  const past = contextAfter(earlier.map(({ record }) => record));
  const following = renderContinuation(tokenizer, opening, last.told, schemas);
  // A turn that was ended by a text lacks the token that ends a turn.
  const appended = following && [
    ...(last.record.stopText === undefined ? [] : tokenizer.encode(tokenizer.endOfTurn)),
    ...following,
  ];
  if (appended) return { appended, reset: false, context: [...past, ...appended] };
  const afresh = renderPrompt(tokenizer, messagesOf(agent), schemas);
  return { appended: afresh, reset: true, context: afresh };
}

/** Samples the turn by `ask`, unless the context has no room for it. */
export async function sampleIds(
  input: GenerateInput,
  tokenizer: PolicyTokenizer,
  deps: TurnDeps,
  ask: (call: IdsCall) => Promise<IdsAnswer>,
): Promise<GenerateRecord> {
  const agent = await agentAtWork(input, deps);
  const { appended, reset, context } = promptOf(agent, tokenizer);
  const base = { ...agent.place, version: input.policy.version, appended, reset };
  const room = input.maxContextTokens - context.length;
  const nothing: ParsedTurn = { kind: 'no-call', content: '' };
  if (room <= 0) return { ...base, sampled: [], logprobs: [], end: 'context-full', parsed: nothing };
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
    ...base,
    sampled: tokens,
    logprobs,
    temperature: sampling.temperature,
    ...(stopped
      ? readTurn(text, context.length + tokens.length, tokenizer, agent)
      : {
          end: finish === 'length' && room <= maxTokens ? 'context-full' : finish,
          parsed: { kind: 'no-call', content: text },
        }),
    ...(untrainable === undefined ? {} : { untrainable }),
    ...(stopText === undefined ? {} : { stopText }),
  };
}
