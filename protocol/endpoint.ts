/**
 * An endpoint: somebody else's server that samples, by OpenAI's API. It is named by address and model; its key is named
 * by an environment variable and never travels, is never stored and never printed.
 */

/** How a server takes and gives token ids: OpenAI's schema has no field for them. */
export const TOKEN_PROTOCOLS = ['vllm', 'sglang', 'llama.cpp'] as const;
export type TokenProtocol = (typeof TOKEN_PROTOCOLS)[number];

export const ENDPOINT_MODES = ['tokens', 'chat', 'auto'] as const;

export interface Endpoint {
  /** As OpenAI's clients take it, with `/v1` where the server has it. */
  readonly baseUrl: string;
  readonly model: string;
  /** `tokens`: ids in, ids out; `chat`: messages and tool calls; `auto`: what the server is found to offer, once a run. */
  readonly mode: (typeof ENDPOINT_MODES)[number];
  /** For ids; absent: found by what the server says of itself. */
  readonly protocol?: TokenProtocol;
  /** Directory with the served model's tokenizer and chat template (Hugging Face layout): ids are made here. */
  readonly tokenizer?: string;
  /** Name of the environment variable that holds the key where the `gpu` worker runs. */
  readonly apiKeyEnv?: string;
  /** Of one request. */
  readonly timeoutSeconds: number;
  /** Requests at once, of each `gpu` worker. */
  readonly maxConcurrent: number;
  /** Of each `gpu` worker; absent: as many as the server takes. */
  readonly requestsPerMinute?: number;
  /** Prompt and answer together, of each `gpu` worker. */
  readonly tokensPerMinute?: number;
  /** Times that one activity attempt asks, when the server is busy or out of order. */
  readonly maxTries: number;
  /** How long a turn goes on asking a server that is down, over all activity attempts that found it so; at least `timeoutSeconds`. */
  readonly patienceSeconds: number;
  /** What the server calls the limit of an answer: newer models of OpenAI know the second name alone. */
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens';
  /** Further fields of every chat request, such as `chat_template_kwargs`. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
}

/** What an endpoint was found, or declared, to offer. */
export type Offer =
  | { readonly mode: 'tokens'; readonly protocol: TokenProtocol; readonly contextTokens?: number }
  | { readonly mode: 'chat'; readonly reason: string; readonly contextTokens?: number };

/** The address of OpenAI's path `path`. */
export function openAiUrl({ baseUrl }: Pick<Endpoint, 'baseUrl'>, path: string): string {
  return `${baseUrl.replace(/\/+$/, '')}/${path}`;
}

/** The address of a path of the server's own, beside `/v1`. */
export function nativeUrl({ baseUrl }: Pick<Endpoint, 'baseUrl'>, path: string): string {
  return `${baseUrl.replace(/\/+$/, '').replace(/\/v1$/, '')}/${path}`;
}

/** An assistant message in OpenAI's form: arguments are the text that the model wrote. */
export interface ChatTurn {
  readonly content: string;
  readonly toolCalls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>;
  readonly refusal?: string;
  /** Thoughts, where the server shows them: on record, never sent back. */
  readonly reasoning?: string;
}

export interface ChatAnswer {
  readonly turn: ChatTurn;
  /** `unreadable`: what the model said could not be read, by its server or here, and `turn` is empty. */
  readonly finish: 'stop' | 'length' | 'filtered' | 'unreadable';
  /** As the server counted; `null` where it does not say. */
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number } | null;
}
