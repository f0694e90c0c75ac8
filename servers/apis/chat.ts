/**
 * The one chat that a request of any API becomes, and the one answer from which each API's response is made. All of
 * this folder is pure: no engine, no clock, no random ids. Each API has a file that reads its requests (parsed JSON →
 * fields and a `ChatQuery`) and a file that writes its answers (`ChatAnswer` → response, `ChatDelta`s → events).
 */

import type { Message, ToolSchema } from '../../protocol/message.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { ApiError } from '../http/api-error.ts';

/** `required`: the answer is a call of any tool. A name: of this one. Without tools, and for `none`, it is `auto`. */
export type ToolChoice = 'auto' | 'required' | { readonly name: string };

export interface ChatQuery {
  readonly model: string;
  /** As chat templates read them: calls without ids, answers of tools under the tool's name. */
  readonly messages: readonly Message[];
  /** Empty if the policy may call none. */
  readonly tools: readonly ToolSchema[];
  readonly toolChoice: ToolChoice;
  /** True if the answer ends after its first call. */
  readonly oneCall: boolean;
  /** Text that the answer continues, without repeating it. `''`: none. */
  readonly prefill: string;
  readonly sampling: Omit<SamplingParameters, 'maxTokens'>;
  /** `undefined`: as many as fit the context. */
  readonly maxTokens: number | undefined;
  /** If prompt and answer do not fit the context: refuse the request, or sample fewer tokens. */
  readonly overflow: 'refuse' | 'fewer';
  readonly stops: readonly string[];
  readonly seed: number | undefined;
  readonly stream: boolean;
  /** Number of the likeliest tokens to return at each position; `undefined`: no log-probabilities. */
  readonly topLogprobs: number | undefined;
}

/** What names an answer. The caller of this folder's functions chooses it: the same meta gives the same ids. */
export interface AnswerMeta {
  /** Unique, without a prefix, of `[A-Za-z0-9-]`. */
  readonly id: string;
  /** In seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

export interface ChatCall {
  /** Unique, without an API's prefix. */
  readonly id: string;
  readonly name: string;
  /** A JSON object as the policy wrote it. */
  readonly arguments: string;
}

/** A sampled token in a form that all APIs can show. */
export interface TokenShown {
  readonly token: string;
  /** In nats. */
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top: ReadonlyArray<Omit<TokenShown, 'top'>>;
}

export interface ChatAnswer {
  /** Without its tags. `''`: none. */
  readonly reasoning: string;
  /** The text after the reasoning and before the first call. */
  readonly content: string;
  readonly calls: readonly ChatCall[];
  /** `context`: fewer tokens than asked fit the context, and all were sampled. */
  readonly finish: 'stop' | 'length' | 'context';
  /** The caller's stop string that ended the answer. */
  readonly stopText?: string;
  readonly promptTokens: number;
  readonly answerTokens: number;
  readonly reasoningTokens: number;
  /** Present if the query asked for them. */
  readonly logprobs?: readonly TokenShown[];
}

/** A part of an answer that is streamed. Text comes in pieces; a call comes whole, after all text. */
export type ChatDelta =
  | { readonly kind: 'reasoning' | 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly call: ChatCall };

/** A server-sent event. `event` is absent in APIs whose events have no names. */
export interface ApiEvent {
  readonly event?: string;
  readonly data: object;
}

/** Errors: `ApiError` 400 if the tool is not one of the request's. */
export function toolChoiceOf(
  asked: 'auto' | 'none' | 'required' | { readonly name: string },
  tools: readonly ToolSchema[],
): ToolChoice {
  if (asked === 'none' || asked === 'auto') return 'auto';
  if (tools.length === 0) throw new ApiError(400, 'tool_choice: give tools too', { param: 'tool_choice' });
  if (asked !== 'required' && !tools.some((tool) => tool.function.name === asked.name))
    throw new ApiError(400, `tool_choice: ${JSON.stringify(asked.name.slice(0, 80))} is none of the tools`, {
      param: 'tool_choice',
    });
  return asked;
}

const [OPEN, CLOSE] = ['<think>', '</think>'] as const;

/** The text of an assistant's message with its reasoning, as policies write it. */
export const withReasoning = (reasoning: string, text: string): string =>
  reasoning === '' ? text : `${OPEN}\n${reasoning}\n${CLOSE}\n\n${text}`;

/** Messages with the system messages at their beginning as one: most templates know one. */
export function withOneSystem(messages: readonly Message[]): Message[] {
  const at = messages.findIndex(({ role }) => role !== 'system');
  const first = at < 0 ? messages : messages.slice(0, at);
  if (first.length < 2) return [...messages];
  const content = first.map((one) => one.content).join('\n\n');
  return [{ role: 'system', content }, ...messages.slice(first.length)];
}
