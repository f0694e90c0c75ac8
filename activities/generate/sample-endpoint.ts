/**
 * One turn of a policy behind an endpoint, by ids if it offers them and by chat otherwise. What it offers is detected
 * once per run and recorded, so that all turns of a rollout are sampled in the same way.
 */

import { createHash } from 'node:crypto';
import type { ChatAnswer, Endpoint, Offer } from '../../protocol/endpoint.ts';
import { EndpointError } from '../../endpoints/endpoint-error.ts';
import { cutAtStop, dialectOf, whyUntrainable } from '../../endpoints/tokens/sample-tokens.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { PromptTooLong } from '../failures.ts';
import { endpointFailure } from './endpoint-failure.ts';
import { type EndpointDeps, endpointTokenizer, offerOf } from './endpoint-offer.ts';
import { sampleChat } from './sample-chat.ts';
import type { TurnDeps } from './agent-at-work.ts';
import { isCallInput, sampleCall } from './sample-call.ts';
import { type IdsAnswer, type IdsCall, sampleIds } from './sample-ids.ts';

/** 31 bits: every server accepts these. */
function seedOf(noiseKey: string): number {
  return createHash('sha256').update(noiseKey).digest().readUInt32BE(0) >>> 1;
}

/** `null` if the context was full: an end of the loop, not an error. Errors: `PromptTooLong` in the first turn. */
async function unlessFull<T>({ turn, task, call }: GenerateInput, work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof EndpointError) || error.kind !== 'context') throw error;
    if (turn > 1 || call) return null;
    throw new PromptTooLong(task, error.context?.prompt, error.context?.limit, error.message);
  }
}

/**
 * If the server could not read what the model sampled, the policy made a mistake: it is shown a hint, and continues.
 */
async function chatAnswer(input: GenerateInput, asked: Promise<ChatAnswer>): Promise<ChatAnswer | null> {
  try {
    return await unlessFull(input, asked);
  } catch (error) {
    if (!(error instanceof EndpointError) || error.kind !== 'unreadable') throw error;
    return { turn: { content: '', toolCalls: [] }, finish: 'unreadable', usage: null };
  }
}

async function byIds(
  input: GenerateInput,
  endpoint: Endpoint,
  offer: Extract<Offer, { mode: 'tokens' }>,
  deps: EndpointDeps & TurnDeps,
  signal: AbortSignal,
) {
  const { protocol, contextTokens = Number.POSITIVE_INFINITY } = offer;
  const ask = async (call: IdsCall): Promise<IdsAnswer> => {
    const { noiseKey = input.noiseKey, ...asked } = call;
    const whole = { ...asked, seed: seedOf(noiseKey) };
    const answer = await unlessFull(input, deps.endpoints.sampleTokens(endpoint, protocol, whole, signal));
    if (!answer) return { tokens: [], logprobs: [], finish: 'context' };
    const { tokens, logprobs, finish } = cutAtStop(answer, whole);
    const untrainable = whyUntrainable(answer, dialectOf(protocol), whole);
    return {
      tokens,
      logprobs: logprobs ?? [],
      finish: finish === 'filtered' ? 'refused' : finish,
      ...(untrainable === undefined ? {} : { untrainable }),
    };
  };
  const { maxContextTokens = Number.POSITIVE_INFINITY } = input;
  const within = { ...input, maxContextTokens: Math.min(maxContextTokens, contextTokens) };
  const tokenizer = await endpointTokenizer(endpoint, deps);
  return isCallInput(within)
    ? sampleCall(within, tokenizer, deps, ask, false)
    : sampleIds(within, tokenizer, deps, ask);
}

/** Settings that servers name differently, or do not have: refused, not ignored. */
function refuseUnsent({ minP, repetitionPenalty, stop }: GenerateInput['sampling']): void {
  for (const [field, value] of Object.entries({ minP, repetitionPenalty, stop })) {
    if (value === undefined) continue;
    throw new UserInputError(
      `sampling.${field}`,
      value,
      "leave it out: it is not sent to endpoints (if the server takes it, set it in the endpoint's extraBody)",
    );
  }
}

/** Errors: `UserInputError` for what a user must change; `EndpointUnavailable` if a later attempt may succeed. */
export async function sampleEndpoint(
  input: GenerateInput,
  endpoint: Endpoint,
  deps: EndpointDeps & TurnDeps,
  signal: AbortSignal,
): Promise<GenerateRecord> {
  refuseUnsent(input.sampling);
  try {
    const offer = await offerOf(input.run, endpoint, deps, signal);
    if (input.call && offer.mode !== 'tokens')
      throw new UserInputError(
        'policy.endpoint.mode',
        offer.mode,
        'give an endpoint that is asked in token ids: the calls of a program with a gateway are continued in them',
      );
    const record =
      offer.mode === 'tokens'
        ? await byIds(input, endpoint, offer, deps, signal)
        : await sampleChat(input, deps, (call) => chatAnswer(input, deps.endpoints.chat(endpoint, call, signal)));
    return { ...record, endpoint: { baseUrl: endpoint.baseUrl, model: endpoint.model, offer } };
  } catch (error) {
    throw error instanceof EndpointError ? endpointFailure(error, endpoint) : error;
  }
}
