/**
 * The backends `vllm` and `sglang`: policies that are trained elsewhere and sampled by such servers. The folder of each
 * checkpoint is pushed to a server before it is sampled from, and nothing is returned that another version sampled.
 */

import { createHash } from 'node:crypto';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { EndpointError } from '../endpoint-error.ts';
import { vocabularyIn } from '../tokens/vocabulary.ts';
import { type SamplerKind, parseSamplerUri, type SamplerPolicy } from '../../protocol/sampler-uri.ts';
import type { BackendDefinition, SampleAnswer, SampleRequest } from '../../trainer/backends/definition.ts';
import { builtInBackend } from '../../trainer/backends/registry.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { type Checkpoint, CheckpointMissing, readCheckpoint } from './checkpoint.ts';
import { type Patience, patienceOf, waitInPatience } from './hold-version.ts';
import { sampleVersion } from './sample-version.ts';
import { isAway, SamplerServer } from './sampler-server.ts';

/** More than a server is waited for, so that the error says what it waited for. */
const CALL_SECONDS = 1800;
/** What rounding to float32 may put above 0. */
const ROUNDING = 1e-3;

/** One rollout's calls go to one server, for its prefix cache; to the next ones if that is lost. */
function inOrder({ servers }: SamplerPolicy, rollout: string): readonly string[] {
  const place = (server: string) =>
    createHash('sha256')
      .update(JSON.stringify([server, rollout]))
      .digest('hex');
  return servers.toSorted((one, other) => (place(one) < place(other) ? -1 : 1));
}

/** The vLLM protocol's log-probabilities are of temperature 1. Errors: `EndpointError` for another one. */
function refuseTemperature(kind: SamplerKind, temperature: number): void {
  if (kind === 'sglang' || temperature === 0 || temperature === 1) return;
  throw new EndpointError(
    'bad-request',
    `sampling.temperature is ${temperature}: give 1 or 0, since vLLM returns the log-probabilities of temperature 1`,
  );
}

/** Digests by URI as they were described: records name them. */
const described = new Map<string, string>();

/** Errors: `CheckpointMissing`, also for files that are others than those which were described. */
async function describedCheckpoint(uri: string, policy: SamplerPolicy): Promise<Checkpoint> {
  const checkpoint = await readCheckpoint(policy);
  if ((described.get(uri) ?? checkpoint.digest) === checkpoint.digest) return checkpoint;
  throw new CheckpointMissing(
    `${policy.folder} has other files than before: restore them, or give a changed checkpoint a folder of its own`,
  );
}

/** By the first server that answers. A string: all are away, and why. */
async function sampleByFirst(
  policy: SamplerPolicy,
  checkpoint: Checkpoint,
  request: SampleRequest,
  patience: Patience,
  signal: AbortSignal,
): Promise<SampleAnswer | string> {
  const { tokens, sampling, stopTokenIds, noiseKey, rollout } = request;
  const seed = createHash('sha256').update(noiseKey).digest().readUInt32BE() >>> 1;
  const call = { tokens, sampling, stopTokenIds, seed };
  const lost: EndpointError[] = [];
  for (const address of inOrder(policy, rollout)) {
    const server = new SamplerServer(address, policy.apiKeyEnv, process.env);
    try {
      const { isFull, ...answer } = await sampleVersion(policy, server, checkpoint, call, patience, signal);
      if (answer.logprobs === null) throw new EndpointError('protocol', `${address} gave no log-probabilities`);
      if (answer.finish === 'filtered') throw new EndpointError('protocol', `${address} filtered the answer`);
      const logprobs = answer.logprobs.map((value) => (value > 0 && value <= ROUNDING ? 0 : value));
      return { tokens: answer.tokens, logprobs, finish: isFull ? 'context' : answer.finish };
    } catch (error) {
      if (!(error instanceof EndpointError) || !error.isTransient) throw error;
      lost.push(error);
    }
  }
  const what = lost.map(({ message }) => message).join('; ');
  if (lost.every(isAway)) return what;
  throw new EndpointError('unavailable', `no server of the policy answers: ${what}`);
}

/** A server that is away is waited for as one that is behind: if it starts again, it loads its model for minutes. */
async function sample(request: SampleRequest, signal: AbortSignal): Promise<SampleAnswer> {
  const policy = parseSamplerUri(request.uri);
  refuseTemperature(policy.kind, request.sampling.temperature);
  const checkpoint = await describedCheckpoint(request.uri, policy);
  const patience = patienceOf(policy.patience);
  for (let tries = 0; ; tries += 1) {
    const answer = await sampleByFirst(policy, checkpoint, request, patience, signal);
    if (typeof answer !== 'string') return answer;
    if (await waitInPatience(patience, tries, signal)) continue;
    throw new EndpointError(
      'unavailable',
      `no server of the policy answered within ${policy.patience} s (${answer}): start one of them, or raise patience`,
    );
  }
}

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

async function tokenizerOf({ tokenizer, folder }: SamplerPolicy): Promise<string> {
  if (tokenizer !== undefined) return tokenizer;
  if (await exists(join(folder, 'tokenizer.json'))) return folder;
  throw new EndpointError('bad-request', `${folder} has no tokenizer.json: give tokenizer=FOLDER in the policy's URI`);
}

const trained = (kind: SamplerKind) => async (): Promise<never> => {
  throw new EndpointError('bad-request', `backend ${kind} does not train: its policies are trained elsewhere`);
};

function samplerBackend(kind: SamplerKind): BackendDefinition<never> {
  const never = trained(kind);
  return {
    name: kind,
    schemes: [kind],
    promise: 'exactly-once',
    losses: 'any',
    entropy: false,
    critic: false,
    lora: true,
    sampling: ['greedy', 'topP', 'topK'],
    maxContext: null,
    images: false,
    callSeconds: CALL_SECONDS,

    refuse: () => ['policy.backend', kind, 'give embedded or tinker: it samples what is trained elsewhere, in evals'],

    async describe(uri) {
      const policy = parseSamplerUri(uri);
      const [{ digest }, tokenizer] = await Promise.all([readCheckpoint(policy), tokenizerOf(policy)]);
      described.set(uri, digest);
      return { parameters: 0, vocabulary: await vocabularyIn(await resolveModel(tokenizer)), tokenizer, digest };
    },

    sample,
    open: never,
    forward: never,
    forwardBackward: never,
    optimStep: never,
    saveState: never,
    saveForSampler: never,
  };
}

export const vllmBackend = samplerBackend('vllm');
export const sglangBackend = samplerBackend('sglang');

/** Importing this file makes the backends known, in every process that opens runs or calls models. */
builtInBackend(vllmBackend);
builtInBackend(sglangBackend);
