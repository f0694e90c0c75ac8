/**
 * What an endpoint offers, found once and then kept on record: which server it says it is, and whether that server
 * gives back the ids that it was sent. Chat is what is left; the reason says why.
 *
 * Source: `/v1/models` names its server in `owned_by`: "vllm" (vllm/entrypoints/openai/models/protocol.py), "sglang"
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

/** Longhaul's own server takes and gives ids as vLLM does. */
const OWNERS: Readonly<Record<string, TokenProtocol>> = {
  vllm: 'vllm',
  longhaul: 'vllm',
  sglang: 'sglang',
  llamacpp: 'llama.cpp',
};

/** Failures that say something of what is offered, as opposed to failures of the moment, of the key or of the account. */
function isAbsence(error: unknown): error is EndpointError {
  return (
    error instanceof EndpointError &&
    ['bad-request', 'unknown-model', 'protocol', 'retokenised', 'context-full'].includes(error.kind)
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

/** A server's own paths take no model's name: another model than the one that is named would answer, and nobody would know. */
function checkName(endpoint: Endpoint, protocol: TokenProtocol, names: readonly string[]): void {
  if (!dialectOf(protocol).native || names.length === 0 || names.includes(endpoint.model)) return;
  throw new EndpointError('unknown-model', `the server has ${names.join(', ')}`);
}

/**
 * llama.cpp answers under any name with the one model that it has.
 * Errors: `EndpointError` of kind `unknown-model`; of another where the server cannot be asked.
 */
export async function checkServedName(endpoint: Endpoint, client: EndpointClient, signal: AbortSignal): Promise<void> {
  const { owner, names } = await serverOf(endpoint, client, signal);
  const protocol = OWNERS[owner ?? ''];
  if (protocol) checkName(endpoint, protocol, names);
}

/** One token is asked for; what comes back shows whether ids do. */
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
 * `prompt`: some ids of the tokenizer, where the endpoint names one.
 * Errors: `EndpointError`; of kind `protocol` or `retokenised` where `tokens` is asked for and not offered.
 */
export async function detectOffer(
  endpoint: Endpoint,
  prompt: readonly number[] | undefined,
  client: EndpointClient,
  signal: AbortSignal,
): Promise<Offer> {
  if (endpoint.mode === 'chat') return { mode: 'chat', reason: 'mode: chat is set' };
  if (prompt === undefined) return { mode: 'chat', reason: 'no tokenizer is named to make ids with' };
  const { owner, names, size } = await serverOf(endpoint, client, signal);
  const protocol = endpoint.protocol ?? OWNERS[owner ?? ''];
  if (!protocol) {
    const reason = `${endpoint.baseUrl}/models names no server that takes ids (owned_by: ${JSON.stringify(owner ?? null)})`;
    if (endpoint.mode === 'tokens') throw new EndpointError('protocol', reason);
    return { mode: 'chat', reason, ...size };
  }
  checkName(endpoint, protocol, names);
  const absent = await probe(endpoint, protocol, prompt, client, signal);
  if (!absent) return { mode: 'tokens', protocol, ...size };
  if (endpoint.mode === 'tokens') throw absent;
  return { mode: 'chat', reason: absent.message, ...size };
}
