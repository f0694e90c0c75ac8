/**
 * An endpoint: another party's server that samples through OpenAI's API, named by address and model. Its key is in an
 * environment variable, and only the variable's name is passed on: the key is never sent to Temporal, stored or shown.
 */

import type { Price } from './budget.ts';

/** How a server receives and returns token ids. OpenAI's schema has no field for them. */
export const TOKEN_PROTOCOLS = ['vllm', 'sglang', 'llama.cpp'] as const;
export type TokenProtocol = (typeof TOKEN_PROTOCOLS)[number];

export const ENDPOINT_MODES = ['tokens', 'chat', 'auto'] as const;

export interface Endpoint {
  /** As OpenAI's clients expect it: with `/v1` if the server uses it. */
  readonly baseUrl: string;
  readonly model: string;
  /** `tokens`: ids in, ids out. `chat`: messages and tool calls. `auto`: detected from the server, once per run. */
  readonly mode: (typeof ENDPOINT_MODES)[number];
  /** The protocol for ids. Absent: detected from what the server reports about itself. */
  readonly protocol?: TokenProtocol;
  /** Directory with the served model's tokenizer and chat template (Hugging Face layout), to make ids with. */
  readonly tokenizer?: string;
  /** Name of the environment variable that holds the key where the `gpu` worker runs. */
  readonly apiKeyEnv?: string;
  /** Time limit of one request. */
  readonly timeoutSeconds: number;
  /** Most requests at once, for each `gpu` worker. */
  readonly maxConcurrent: number;
  /** Limit for each `gpu` worker. Absent: no limit. */
  readonly requestsPerMinute?: number;
  /** Limit for each `gpu` worker; prompt and answer count together. Absent: no limit. */
  readonly tokensPerMinute?: number;
  /** Most requests that one activity attempt makes for a turn while the server is busy or failing. */
  readonly maxTries: number;
  /** How long a turn retries while the server is down, over all activity attempts. At least `timeoutSeconds`. */
  readonly patienceSeconds: number;
  /** The server's field for the limit of an answer. Newer models of OpenAI accept only the second name. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** True if the model takes images, in mode `chat`. Absent: observations are sent as text alone. */
  readonly images?: boolean;
  /** US dollars for a million tokens: for budgets and metrics. Absent: unknown, and counted as 0. */
  readonly pricePerMillionTokens?: Price;
  /** In mode `chat`: values of `finish_reason` that Longhaul does not know. Answers with others are failures. */
  readonly finishWords?: FinishWords;
  /** Further fields of every chat request, such as `chat_template_kwargs`. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
}

/** What further words of a server for the end of an answer mean; the word `null` stands for a missing one. */
export type FinishWords = Readonly<Record<string, 'stop' | 'length' | 'filtered'>>;

/** How an endpoint can be used: detected, or given in its settings. */
export type Offer =
  | { readonly mode: 'tokens'; readonly protocol: TokenProtocol; readonly contextTokens?: number }
  | { readonly mode: 'chat'; readonly reason: string; readonly contextTokens?: number };

/** The address of `path` in OpenAI's API. */
export function openAiUrl({ baseUrl }: Pick<Endpoint, 'baseUrl'>, path: string): string {
  return `${baseUrl.replace(/\/+$/, '')}/${path}`;
}

/** The address of `path` in the server's own API, outside `/v1`. */
export function nativeUrl({ baseUrl }: Pick<Endpoint, 'baseUrl'>, path: string): string {
  return `${baseUrl.replace(/\/+$/, '').replace(/\/v1$/, '')}/${path}`;
}

/** An assistant message in OpenAI's form. Arguments are the text that the model wrote. */
export interface ChatTurn {
  readonly content: string;
  readonly toolCalls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>;
  readonly refusal?: string;
  /** The model's reasoning, if the server returns it. It is recorded and never sent back. */
  readonly reasoning?: string;
}

export interface ChatAnswer {
  readonly turn: ChatTurn;
  /** `unreadable`: the server or Longhaul could not parse the model's answer, and `turn` is empty. */
  readonly finish: 'stop' | 'length' | 'filtered' | 'unreadable';
  /** As counted by the server; `null` if it does not report it. */
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number } | null;
}
