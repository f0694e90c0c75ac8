/**
 * Detects what an endpoint offers, once; the result is recorded. It finds out which server it is, and whether that
 * server accepts and returns token ids. Otherwise the mode is chat, with the reason.
 *
 * Source: `/v1/models` reports the server in `owned_by`: "vllm" (vllm/entrypoints/openai/models/protocol.py), "sglang"
 * (sglang/srt/entrypoints/openai/protocol.py), "llamacpp" (llama.cpp, tools/server).
 */

import { z } from 'zod';
import { type Endpoint, type Offer, openAiUrl, type TokenProtocol } from '../protocol/endpoint.ts';
import { EndpointError } from './endpoint-error.ts';
import type { EndpointClient } from './endpoint-client.ts';
import { dialectOf } from './tokens/sample-tokens.ts';

const models = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      aliases: z.array(z.string()).nullish(),
      owned_by: z.string().nullish(),
      max_model_len: z.int().positive().nullish(),
      meta: z
        .object({ n_ctx: z.int().positive().nullish().catch(null) })
        .nullish()
        .catch(null),
    }),
  ),
});

/** Longhaul's own server uses vLLM's protocol for ids. */
const OWNERS: Readonly<Record<string, TokenProtocol>> = {
  vllm: 'vllm',
  longhaul: 'vllm',
  sglang: 'sglang',
  llamacpp: 'llama.cpp',
};

/**
 * True for an error that shows what the endpoint lacks; false for transient errors, and errors of the key or the
 * account.
 */
function isAbsence(error: unknown): error is EndpointError {
  return (
    error instanceof EndpointError &&
    ['bad-request', 'unknown-model', 'malformed', 'protocol', 'retokenised', 'context'].includes(error.kind)
  );
}

async function serverOf(endpoint: Endpoint, client: EndpointClient, signal: AbortSignal) {
  try {
    const listed = models.safeParse(await client.get(endpoint, openAiUrl(endpoint, 'models'), signal));
    const data = listed.success ? listed.data.data : [];
    const named = data.find(({ id, aliases }) => id === endpoint.model || aliases?.includes(endpoint.model));
    const contextTokens = named?.max_model_len ?? named?.meta?.n_ctx ?? undefined;
    const size = contextTokens === undefined ? {} : { contextTokens };
    return {
      owner: (named ?? data[0])?.owned_by ?? undefined,
      names: data.flatMap(({ id, aliases }) => [id, ...(aliases ?? [])]),
      size,
    };
  } catch (error) {
    if (isAbsence(error)) return { owner: undefined, names: [], size: {} };
    throw error;
  }
}

/** Checks the model's name. A server's own paths take no model name, so another model could answer unnoticed. */
function checkName(endpoint: Endpoint, protocol: TokenProtocol, names: readonly string[]): void {
  if (!dialectOf(protocol).native || names.length === 0 || names.includes(endpoint.model)) return;
  throw new EndpointError('unknown-model', `the server has ${names.join(', ')}`);
}

/**
 * Checks that the server has the endpoint's model: llama.cpp, for example, answers for any name with its only model.
 * Errors: `EndpointError` of kind `unknown-model`; of another kind if the request fails.
 */
export async function checkServedName(endpoint: Endpoint, client: EndpointClient, signal: AbortSignal): Promise<void> {
  const { owner, names } = await serverOf(endpoint, client, signal);
  const protocol = OWNERS[owner ?? ''];
  if (protocol) checkName(endpoint, protocol, names);
}

/** Samples one token. Returns the error if the server does not handle ids, else `undefined`. */
async function probe(
  endpoint: Endpoint,
  protocol: TokenProtocol,
  prompt: readonly number[],
  client: EndpointClient,
  signal: AbortSignal,
) {
  const sampling = { temperature: 0, topP: 1, topK: 0, maxTokens: 1 };
  try {
    await client.sampleTokens(endpoint, protocol, { tokens: prompt, sampling, stopTokenIds: [], seed: 0 }, signal);
    return undefined;
  } catch (error) {
    if (isAbsence(error)) return error;
    throw error;
  }
}

/**
 * `prompt`: some ids of the tokenizer, if the endpoint sets one.
 * Errors: `EndpointError`; of kind `protocol` or `retokenised` if `mode` is `tokens` and the server does not offer it.
 */
export async function detectOffer(
  endpoint: Endpoint,
  prompt: readonly number[] | undefined,
  client: EndpointClient,
  signal: AbortSignal,
): Promise<Offer> {
  if (endpoint.mode === 'chat') return { mode: 'chat', reason: 'mode: chat is set' };
  if (prompt === undefined)
    return { mode: 'chat', reason: 'the endpoint sets no tokenizer, so prompts cannot be sent as ids' };
  const { owner, names, size } = await serverOf(endpoint, client, signal);
  const protocol = endpoint.protocol ?? OWNERS[owner ?? ''];
  if (!protocol) {
    const reason =
      `${endpoint.baseUrl}/models reports no server that supports token ids (owned_by: ` +
      `${JSON.stringify(owner ?? null)})`;
    if (endpoint.mode === 'tokens') throw new EndpointError('protocol', reason);
    return { mode: 'chat', reason, ...size };
  }
  checkName(endpoint, protocol, names);
  const absent = await probe(endpoint, protocol, prompt, client, signal);
  if (!absent) return { mode: 'tokens', protocol, ...size };
  if (endpoint.mode === 'tokens') throw absent;
  return { mode: 'chat', reason: absent.message, ...size };
}
