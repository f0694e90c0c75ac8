/**
 * One call to one server, in token ids, by one version of a policy. Its answer is used only if the server says that
 * this version sampled it; otherwise the server is brought to the version, and asked again.
 */

import { roomIn } from '../endpoint-client.ts';
import { EndpointError } from '../endpoint-error.ts';
import { sglang } from '../tokens/sglang.ts';
import { cutAtStop } from '../tokens/sample-tokens.ts';
import type { TokenAnswer, TokenCall, TokenDialect } from '../tokens/token-call.ts';
import { vllm } from '../tokens/vllm.ts';
import type { SamplerKind, SamplerPolicy } from '../../protocol/sampler-uri.ts';
import type { Checkpoint } from './checkpoint.ts';
import { holdVersion, isBusy, type Patience, waitTurn } from './hold-version.ts';
import { type PushedWeights, WrongVersion } from './pushed-weights.ts';
import type { SamplerServer } from './sampler-server.ts';
import { sglangWeights } from './sglang-weights.ts';
import { vllmWeights } from './vllm-weights.ts';

interface Kind {
  readonly tokens: TokenDialect;
  readonly weights: PushedWeights;
  /** Of the route for ids. */
  readonly path: string;
}

const kinds: Readonly<Record<SamplerKind, Kind>> = {
  vllm: { tokens: vllm, weights: vllmWeights, path: 'v1/completions' },
  sglang: { tokens: sglang, weights: sglangWeights, path: 'generate' },
};

/** Version that a server of this process was last seen with: it is looked at again when an answer says otherwise. */
const held = new Map<string, string>();

/**
 * What a request ends in if the server has lost the version: an adapter that it does not know, other weights, a pause.
 */
const mayBeBehind = (error: unknown): error is Error =>
  error instanceof WrongVersion ||
  isBusy(error) ||
  (error instanceof EndpointError && (error.kind === 'unknown-model' || error.kind === 'bad-request'));

async function ask(
  { tokens, weights, path }: Kind,
  server: SamplerServer,
  model: string,
  checkpoint: Checkpoint,
  call: TokenCall,
  signal: AbortSignal,
): Promise<TokenAnswer> {
  const body = { ...tokens.request(model, call), ...weights.request(checkpoint) };
  const answer = await server.post(path, body, signal);
  weights.check(answer, checkpoint);
  return cutAtStop(tokens.read(answer, call), call);
}

/** An answer that was cut at the end of the context has `isFull`. */
async function askFitting(
  kind: Kind,
  server: SamplerServer,
  model: string,
  checkpoint: Checkpoint,
  call: TokenCall,
  signal: AbortSignal,
): Promise<TokenAnswer & { readonly isFull: boolean }> {
  try {
    return { ...(await ask(kind, server, model, checkpoint, call, signal)), isFull: false };
  } catch (error) {
    if (!(error instanceof EndpointError) || error.kind !== 'context') throw error;
    const room = roomIn(error, call.sampling.maxTokens, call.tokens.length);
    if (room === undefined) return { tokens: [], logprobs: [], finish: 'length', isFull: true };
    const sized = { ...call, sampling: { ...call.sampling, maxTokens: room } };
    const answer = await ask(kind, server, model, checkpoint, sized, signal);
    return { ...answer, isFull: answer.finish === 'length' };
  }
}

/** Errors: `SamplerBehind`, `SamplerAhead`, `EndpointError`; the reason of `signal`. */
export async function sampleVersion(
  policy: SamplerPolicy,
  server: SamplerServer,
  checkpoint: Checkpoint,
  call: TokenCall,
  patience: Patience,
  signal: AbortSignal,
): Promise<TokenAnswer & { readonly isFull: boolean }> {
  const kind = kinds[policy.kind];
  const name = `${policy.kind} ${server.address}`;
  const version = `${checkpoint.label} ${checkpoint.isAdapter}`;
  let refusals = 0;
  for (let tries = 0; ; tries += 1) {
    const wasHeld = held.get(name) === version;
    if (!wasHeld) await holdVersion(kind.weights, server, checkpoint, patience, signal);
    held.set(name, version);
    try {
      return await askFitting(kind, server, policy.model, checkpoint, call, signal);
    } catch (error) {
      held.delete(name);
      if (!mayBeBehind(error)) throw error;
      // The server has just said that it has the version: what it refuses is the request itself. A model that it does
      // not know may be an adapter that it lost since: it is asked a second time.
      const refused = error instanceof EndpointError && error.status !== 503 ? error.kind : undefined;
      if (refused !== undefined && !wasHeld && (refused === 'bad-request' || ++refusals > 1)) throw error;
      await waitTurn(server, checkpoint, patience, tries, error.message, signal);
    }
  }
}
