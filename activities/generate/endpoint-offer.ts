/**
 * What an endpoint offers, detected once per run and recorded; and whether it accepts its key and its settings, checked
 * before anything is made for it.
 */

import { createHash } from 'node:crypto';
import type { Store } from '../../store/store.ts';
import { checkServedName, detectOffer } from '../../endpoints/detect-offer.ts';
import type { Endpoint, Offer } from '../../protocol/endpoint.ts';
import type { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { EndpointError } from '../../endpoints/endpoint-error.ts';
import type { CheckEndpointInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { keys } from '../../protocol/record-keys.ts';
import { endpointFailure } from './endpoint-failure.ts';
import type { PolicyTokenizer } from './sample-ids.ts';

export interface EndpointDeps {
  readonly store: Store;
  readonly endpoints: EndpointClient;
  readonly tokenizerOf: (dir: string) => Promise<PolicyTokenizer>;
}

/** Errors: `UserInputError` for `field` if the directory has no tokenizer. */
export async function endpointTokenizer(
  { tokenizer }: Endpoint,
  deps: EndpointDeps,
  field = 'policy.endpoint',
): Promise<PolicyTokenizer> {
  try {
    return await deps.tokenizerOf(tokenizer ?? '');
  } catch (error) {
    throw new UserInputError(
      `${field}.tokenizer`,
      tokenizer ?? null,
      `give a directory of the served model (${(error as Error).message})`,
    );
  }
}

/** Errors: `EndpointError`; `UserInputError` for the tokenizer. */
export async function offerOf(
  run: string,
  endpoint: Endpoint,
  deps: EndpointDeps,
  signal: AbortSignal,
  field?: string,
): Promise<Offer> {
  const { baseUrl, model, mode, protocol, tokenizer } = endpoint;
  const asked = JSON.stringify([baseUrl, model, mode, protocol, tokenizer]);
  const key = keys.offer(run, createHash('sha256').update(asked).digest('hex').slice(0, 16));
  const known = await deps.store.get<Offer>(key);
  if (known) return known;
  const prompt =
    tokenizer === undefined ? undefined : (await endpointTokenizer(endpoint, deps, field)).encode('Hello, world');
  return deps.store.putOnce(key, await detectOffer(endpoint, prompt, deps.endpoints, signal));
}

/**
 * Failures of a call for one token that every later call would share. Others are ignored: some models refuse so short
 * an answer.
 */
const LASTING: readonly EndpointError['kind'][] = [
  'auth',
  'quota',
  'unknown-model',
  'key-not-allowed',
  'address-not-allowed',
];

/** Samples one token: not every server checks the key when it lists its models. */
async function askForOneToken(endpoint: Endpoint, { endpoints }: EndpointDeps, signal: AbortSignal): Promise<void> {
  const sampling = { temperature: 1, topP: 1, topK: 0, maxTokens: 1 };
  try {
    await endpoints.chat(endpoint, { messages: [{ role: 'user', content: 'Hello' }], tools: [], sampling }, signal);
  } catch (error) {
    if (error instanceof EndpointError && !LASTING.includes(error.kind)) return;
    throw error;
  }
}

/** A transient failure to list the models says nothing about the model: the calls that follow check it. */
async function checkListedName(endpoint: Endpoint, { endpoints }: EndpointDeps, signal: AbortSignal): Promise<void> {
  try {
    await checkServedName(endpoint, endpoints, signal);
  } catch (error) {
    if (!(error instanceof EndpointError) || !error.isTransient) throw error;
  }
}

/**
 * Errors: `UserInputError` for what a user must change: it names the setting, and never a key. A server that is down
 * passes the check.
 */
export async function checkEndpoint(
  { run, endpoint, field }: CheckEndpointInput,
  deps: EndpointDeps,
  signal: AbortSignal,
): Promise<void> {
  const hasty = { ...endpoint, maxTries: 1, timeoutSeconds: Math.min(endpoint.timeoutSeconds, 60) };
  try {
    await checkListedName(hasty, deps, signal);
    const { mode } = await offerOf(run, hasty, deps, signal, field);
    if (mode === 'chat' || endpoint.apiKeyEnv !== undefined) await askForOneToken(hasty, deps, signal);
  } catch (error) {
    if (!(error instanceof EndpointError)) throw error;
    if (!error.isTransient) throw endpointFailure(error, endpoint, field);
  }
}
