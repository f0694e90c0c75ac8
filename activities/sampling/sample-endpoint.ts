/**
 * One turn of a policy behind an endpoint, by ids where it offers them and by chat otherwise. What it offers is found
 * once a run and recorded, so that no two turns of a rollout are asked in different ways.
 */

import { createHash } from 'node:crypto';
import type { Store } from '../../store/store.ts';
import { detectOffer } from '../../trainer/backends/detect-offer.ts';
import type { Endpoint, Offer } from '../../trainer/backends/endpoint.ts';
import type { EndpointClient } from '../../trainer/backends/endpoint-client.ts';
import { EndpointError } from '../../trainer/backends/endpoint-error.ts';
import { cutAtStop, dialectOf, whyUntrainable } from '../../trainer/backends/tokens/sample-tokens.ts';
import type { GenerateInput } from '../../workflows/types.ts';
import { UserInputError } from '../failures.ts';
import { type GenerateRecord, keys } from '../records.ts';
import { endpointFailure } from './endpoint-failure.ts';
import { sampleChat } from './sample-chat.ts';
import { type IdsAnswer, type IdsCall, type PolicyTokenizer, sampleIds } from './sample-ids.ts';

export interface EndpointDeps {
  readonly store: Store;
  readonly endpoints: EndpointClient;
  readonly tokenizerOf: (dir: string) => Promise<PolicyTokenizer>;
}

const digestOf = (text: string) => createHash('sha256').update(text).digest();

/** Servers take 31 bits everywhere. */
function seedOf(noiseKey: string): number {
  return digestOf(noiseKey).readUInt32BE(0) >>> 1;
}

async function tokenizerOf({ tokenizer }: Endpoint, deps: EndpointDeps): Promise<PolicyTokenizer> {
  try {
    return await deps.tokenizerOf(tokenizer ?? '');
  } catch (error) {
    throw new UserInputError('policy.endpoint.tokenizer', tokenizer ?? null, `give a directory of the served model (${(error as Error).message})`);
  }
}

async function offerOf(input: GenerateInput, endpoint: Endpoint, deps: EndpointDeps, signal: AbortSignal): Promise<Offer> {
  const { baseUrl, model, mode, protocol, tokenizer } = endpoint;
  const digest = digestOf(JSON.stringify([baseUrl, model, mode, protocol, tokenizer])).toString('hex').slice(0, 16);
  const key = keys.offer(input.run, digest);
  const known = await deps.store.get<Offer>(key);
  if (known) return known;
  const prompt = tokenizer === undefined ? undefined : (await tokenizerOf(endpoint, deps)).encode('Hello, world');
  return deps.store.putOnce(key, await detectOffer(endpoint, prompt, deps.endpoints, signal));
}

/** `null` where the context was full: an observation of the loop, not an error. */
async function unlessFull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof EndpointError && error.kind === 'context-full') return null;
    throw error;
  }
}

async function byIds(input: GenerateInput, endpoint: Endpoint, offer: Extract<Offer, { mode: 'tokens' }>, deps: EndpointDeps, signal: AbortSignal) {
  const { protocol, contextTokens = Number.POSITIVE_INFINITY } = offer;
  const ask = async (call: IdsCall): Promise<IdsAnswer> => {
    const whole = { ...call, seed: seedOf(input.noiseKey) };
    const answer = await unlessFull(deps.endpoints.sampleTokens(endpoint, protocol, whole, signal));
    if (!answer) return { tokens: [], logprobs: [], finish: 'context-full' };
    const { tokens, logprobs, finish } = cutAtStop(answer, whole);
    const untrainable = whyUntrainable(answer, dialectOf(protocol), whole);
    return {
      tokens,
      logprobs: logprobs ?? [],
      finish: finish === 'filtered' ? 'refused' : finish,
      ...(untrainable === undefined ? {} : { untrainable }),
    };
  };
  const within = { ...input, maxContextTokens: Math.min(input.maxContextTokens, contextTokens) };
  return sampleIds(within, await tokenizerOf(endpoint, deps), deps.store, ask);
}

/** What servers name in different ways, or have not: told, not ignored. */
function refuseUnsent({ minP, repetitionPenalty, stop }: GenerateInput['sampling']): void {
  for (const [field, value] of Object.entries({ minP, repetitionPenalty, stop })) {
    if (value === undefined) continue;
    throw new UserInputError(`sampling.${field}`, value, 'leave it out: endpoints are not sent it (their extraBody may)');
  }
}

/** Errors: `UserInputError` for what a user must change; `EndpointUnavailable` for what a later attempt may cure. */
export async function sampleEndpoint(
  input: GenerateInput,
  endpoint: Endpoint,
  deps: EndpointDeps,
  signal: AbortSignal,
): Promise<GenerateRecord> {
  refuseUnsent(input.sampling);
  try {
    const offer = await offerOf(input, endpoint, deps, signal);
    const record =
      offer.mode === 'tokens'
        ? await byIds(input, endpoint, offer, deps, signal)
        : await sampleChat(input, deps.store, (call, used) => unlessFull(deps.endpoints.chat(endpoint, call, used, signal)));
    return { ...record, endpoint: { baseUrl: endpoint.baseUrl, model: endpoint.model, offer } };
  } catch (error) {
    throw error instanceof EndpointError ? endpointFailure(error, endpoint) : error;
  }
}
