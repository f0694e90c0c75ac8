/**
 * The backend `tinker`: policies that a Tinker server samples and trains. An update goes from a checkpoint to a
 * checkpoint, each training in a session of its own; a session that is lost costs its update alone.
 */

import { createHash } from 'node:crypto';
import { EndpointError } from '../endpoint-error.ts';
import { vocabularyIn } from '../tokens/vocabulary.ts';
import type { LoraSettings } from '../../protocol/algorithm.ts';
import {
  isTinkerPath,
  parseTinkerUri,
  type TinkerPolicy,
  type TinkerReduction,
  tinkerUri,
} from '../../protocol/tinker-uri.ts';
import type { BackendDefinition, ScoredSequence, TrainingPass } from '../../trainer/backends/definition.ts';
import { builtInBackend } from '../../trainer/backends/registry.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { stateOf, TinkerConnection } from './connection.ts';
import { EVERY_LAYER, type LoraConfig, type TinkerModel, type TinkerSession } from './session.ts';
import {
  bySequence,
  countedAt,
  crossEntropyDatum,
  importanceDatum,
  inRequests,
  ownLoss,
  scoringDatum,
} from './training-pass.ts';
import type { PassRequest, WireDatum } from './wire/pass-request.ts';

/** Rank of an adapter for a state that has none: `policy.lora`'s default. */
const DEFAULT_RANK = 8;
/** Servers that compile for each shape take minutes for the first calls. */
const CALL_SECONDS = 1800;
/** What rounding to float32 may put above 0. */
const ROUNDING = 1e-3;
/** Share by which a sum over tokens may differ from the server's. */
const SUM_TOLERANCE = 0.01;

interface Waiting {
  readonly sequence: ScoredSequence;
  readonly slopes: Float64Array;
  readonly logprobs: Float64Array;
}

interface Training {
  readonly policy: TinkerPolicy;
  readonly session: TinkerSession;
  readonly model: TinkerModel;
  reduction: TinkerReduction | undefined;
  /** For servers that take means: sent when the number of sequences is known. */
  waiting: Waiting[];
}

const connections = new Map<string, TinkerConnection>();

/** One for each server and key in a process. */
function connectionOf(policy: TinkerPolicy): TinkerConnection {
  const name = JSON.stringify([policy.baseUrl, policy.apiKeyEnv]);
  const known = connections.get(name) ?? new TinkerConnection(policy, process.env);
  connections.set(name, known);
  return known;
}

function adapterOf({ rank, seed, targetModules }: LoraSettings & { seed: number }): LoraConfig {
  const trains = (suffixes: readonly string[]) => suffixes.some((one) => targetModules.includes(one as never));
  return { rank, seed: seed % 2 ** 31, train_unembed: false, train_attn: trains(ATTENTION), train_mlp: trains(MLP) };
}

const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj'];
const MLP = ['gate_proj', 'up_proj', 'down_proj'];
/** Tinker's API has no field for it, and its adapters have this one. */
const ALPHA = 32;

const below0 = (values: ArrayLike<number>): number[] =>
  Array.from(values, (value) => (value > 0 && value <= ROUNDING ? 0 : value));

const counted = (sequence: ScoredSequence, all: ArrayLike<number>): Float64Array =>
  Float64Array.from(countedAt(sequence), (at) => all[at] ?? Number.NaN);

async function passes(
  { model }: Training,
  data: readonly WireDatum[],
  given: Pick<PassRequest, 'loss' | 'config' | 'forwardOnly'>,
  signal: AbortSignal,
) {
  const logprobs: Float32Array[] = [];
  let sum: number | undefined = 0;
  for (const some of inRequests(data)) {
    const answer = await model.pass({ ...given, data: some }, signal);
    logprobs.push(...answer.logprobs);
    const reported = answer.metrics['loss:sum'] ?? answer.metrics['total_loss:sum'];
    sum = sum === undefined || reported === undefined ? undefined : sum + reported;
  }
  return { logprobs, sum };
}

/**
 * Whether the server's losses are sums, from a forward pass with weights of 1. Errors: `EndpointError` with the
 * setting's name if the server does not say it, or says something else.
 */
function checkReduction(training: Training, logprobs: readonly Float64Array[], reported: number | undefined): void {
  if (training.reduction !== undefined) return;
  const { baseUrl } = training.policy;
  const sum = -logprobs.reduce((total, row) => total + row.reduce((a, b) => a + b, 0), 0);
  const remedy =
    "give policy.server.reduction: sum, or sequence-mean for a server that takes means, as SkyRL's JAX backend does";
  if (reported === undefined)
    throw new EndpointError('protocol', `${baseUrl} does not return loss:sum, so its reduction is unknown: ${remedy}`);
  if (Math.abs(reported - sum) > SUM_TOLERANCE * Math.max(1, Math.abs(sum)))
    throw new EndpointError('protocol', `${baseUrl} returned loss:sum ${reported} where the sum is ${sum}: ${remedy}`);
  training.reduction = 'sum';
}

async function score(training: Training, sequences: readonly ScoredSequence[], signal: AbortSignal) {
  const given = { loss: 'cross_entropy', config: {}, forwardOnly: true };
  const { logprobs, sum } = await passes(training, sequences.map(scoringDatum), given, signal);
  const found = sequences.map((sequence, i) => Float64Array.from(below0(counted(sequence, logprobs[i] ?? []))));
  return { found, sum };
}

/** The gradient of what waits, scaled so that the server's mean over sequences of means over tokens is the sum. */
async function sendWaiting(training: Training, signal: AbortSignal): Promise<number> {
  const { waiting } = training;
  training.waiting = [];
  const data = waiting.map(({ sequence, slopes, logprobs }) =>
    importanceDatum(sequence, slopes, logprobs, slopes.length * waiting.length),
  );
  await passes(training, data, { loss: 'importance_sampling', config: {}, forwardOnly: false }, signal);
  return waiting.length;
}

/** Names of the norm before clipping in `optim_step`'s metrics: they differ from server to server. */
function normIn(metrics: unknown): number | null {
  const named = Object.entries((metrics ?? {}) as Record<string, unknown>).find(([name]) =>
    /(^|[./])(unclipped_)?grad(ient)?_(l2_)?(norm|l2)(:|$)/.test(name),
  );
  return typeof named?.[1] === 'number' ? named[1] : null;
}

async function openTraining(
  { uri, lora, optimizer }: Parameters<BackendDefinition['open']>[0],
  signal: AbortSignal,
): Promise<Training> {
  const policy = parseTinkerUri(uri);
  const { path, model: base, reduction } = policy;
  const session = await connectionOf(policy).openSession(signal);
  try {
    const fresh = lora ? adapterOf(lora) : { ...EVERY_LAYER, rank: DEFAULT_RANK, seed: 0 };
    const model =
      path === undefined
        ? await session.createModel(base, fresh, signal)
        : await session.loadModel(stateOf(path), base, optimizer, signal);
    return { policy, session, model, reduction, waiting: [] };
  } catch (error) {
    await session.close();
    throw error;
  }
}

async function backward(training: Training, pass: TrainingPass, signal: AbortSignal) {
  const own = training.reduction === 'sum' ? ownLoss(pass.algorithm) : undefined;
  if (own !== undefined) {
    const { loss, config, datum } = own;
    const { logprobs } = await passes(
      training,
      pass.sequences.map(datum),
      { loss, config, forwardOnly: false },
      signal,
    );
    return pass.sequences.flatMap((sequence, i) => below0(counted(sequence, logprobs[i] ?? [])));
  }
  const { found, sum } = await score(training, pass.sequences, signal);
  checkReduction(training, found, sum);
  const all = found.flatMap((row) => [...row]);
  const slopes = bySequence(pass, pass.objective(all).gradient);
  if (training.reduction === 'sum') {
    const data = pass.sequences.map((sequence, i) => crossEntropyDatum(sequence, slopes[i] ?? []));
    await passes(training, data, { loss: 'cross_entropy', config: {}, forwardOnly: false }, signal);
  } else
    for (const [i, sequence] of pass.sequences.entries())
      training.waiting.push({
        sequence,
        slopes: slopes[i] ?? new Float64Array(),
        logprobs: found[i] ?? new Float64Array(),
      });
  return all;
}

/** Names of checkpoints have no slash and no dot. The end of the name is random: it is the part that is kept. */
const nameOf = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, '-').slice(-200);

export const tinkerBackend: BackendDefinition<Training> = {
  name: 'tinker',
  schemes: ['tinker'],
  promise: 'exactly-once',
  losses: 'any',
  entropy: false,
  critic: false,
  lora: true,
  sampling: ['greedy', 'topP', 'topK'],
  maxContext: null,
  images: false,
  callSeconds: CALL_SECONDS,

  refuse({ policy: { lora }, sampling: { temperature } }) {
    if (temperature !== 1) return ['sampling.temperature', temperature, 'give 1: it trains at temperature 1 alone'];
    if (lora === undefined)
      return ['policy.lora', undefined, `give { rank: 8, alpha: ${ALPHA} }: it trains adapters alone`];
    if (lora.alpha !== ALPHA) return ['policy.lora.alpha', lora.alpha, `give ${ALPHA}, which the API's adapters have`];
    for (const group of [ATTENTION, MLP]) {
      const some = group.filter((one) => lora.targetModules.includes(one as never)).length;
      if (some > 0 && some < group.length)
        return ['policy.lora.targetModules', lora.targetModules, `give all of ${group.join(', ')}, or none`];
    }
    return undefined;
  },

  async describe(uri, signal) {
    const policy = parseTinkerUri(uri);
    const { model, path, tokenizer } = policy;
    const connection = connectionOf(policy);
    const served = (await connection.served(signal)).map(({ name }) => name);
    if (served.length > 0 && !served.includes(model))
      throw new EndpointError('unknown-model', `${policy.baseUrl} has ${served.join(', ')}, and not ${model}`);
    const base = path === undefined ? model : await connection.baseOf(path, signal);
    if (base !== model)
      throw new EndpointError(
        'unknown-model',
        `${path} was trained from ${base ?? 'an unknown model'}, not from ${model}`,
      );
    const digest = createHash('sha256')
      .update(JSON.stringify([policy.baseUrl, model, path]))
      .digest('hex');
    return { parameters: 0, vocabulary: await vocabularyIn(await resolveModel(tokenizer)), tokenizer, digest };
  },

  async sample({ uri, tokens, sampling, stopTokenIds, noiseKey }, signal) {
    const policy = parseTinkerUri(uri);
    const { temperature, topP, topK, maxTokens } = sampling;
    const connection = connectionOf(policy);
    const { contextTokens = Infinity } =
      (await connection.served(signal)).find(({ name }) => name === policy.model) ?? {};
    const room = Math.min(maxTokens, contextTokens - tokens.length);
    if (room < 1) return { tokens: [], logprobs: [], finish: 'context' };
    const parameters = {
      max_tokens: room,
      temperature,
      top_p: topP,
      top_k: topK > 0 ? topK : -1,
      seed: createHash('sha256').update(noiseKey).digest().readUInt32BE() >>> 1,
      stop: stopTokenIds,
    };
    const [found] = (await connection.sample(uri, tokens, parameters, signal)).sequences;
    if (found === undefined) throw new EndpointError('protocol', 'asample returned no sequence');
    const isCut = found.finish === 'length' && room < maxTokens;
    return { tokens: [...found.tokens], logprobs: below0(found.logprobs), finish: isCut ? 'context' : found.finish };
  },

  open: openTraining,

  async forward(training, sequences, signal) {
    return (await score(training, sequences, signal)).found;
  },

  async forwardBackward(training, pass, signal) {
    return { logprobs: await backward(training, pass, signal) };
  },

  async optimStep(training, { learningRate, betas: [beta1, beta2], epsilon, weightDecay, maxGradNorm }, signal) {
    if (training.waiting.length > 0) await sendWaiting(training, signal);
    const adam = {
      learning_rate: learningRate,
      beta1,
      beta2,
      eps: epsilon,
      weight_decay: weightDecay,
      grad_clip_norm: maxGradNorm ?? 0,
    };
    const { metrics } = await training.model.result('optim_step', { adam_params: adam, type: 'optim_step' }, signal);
    return { gradNorm: normIn(metrics) };
  },

  async saveState({ policy, model }, { name }, signal) {
    const path = await model.save('save_weights', nameOf(name), signal);
    return { uri: tinkerUri({ ...policy, path }), sha256: null };
  },

  /** By the state's name, so that a server that samples only loaded models can load the state. */
  async saveForSampler({ policy, model }, { name }, signal) {
    const given = await model.save('save_weights_for_sampler', nameOf(name), signal);
    const path = isTinkerPath(given) ? given : `tinker://${model.id}/sampler_weights/${nameOf(name)}`;
    return { uri: tinkerUri({ ...policy, path }) };
  },

  async close({ session, model }) {
    await model.unload();
    await session.close();
  },
};

/** Importing this file makes the backend known, in every process that opens runs or calls models. */
builtInBackend(tinkerBackend);
