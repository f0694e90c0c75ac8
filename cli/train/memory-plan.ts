/** Plans a run's memory and disk space before it starts: the bounds, their parts, and the settings that change them. */

import { availableParallelism } from 'node:os';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import type { ModelConfig } from '../../trainer/model/config.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { layoutOf, parameterCount } from '../../trainer/model/parameters.ts';
import { cacheBudget } from '../../trainer/sampler/cache/cache-budget.ts';
import { gpuDevices } from '../../workers/gpu-devices.ts';
import { planGpuPool } from '../../workers/gpu-pool.ts';
import { readRetention, RETENTION_VARIABLE } from '../../stack/temporal-server/retention.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { contextBound } from '../../trainer/sampler/cache/cache-budget.ts';
import { contextHere, type Surroundings, surroundings } from '../connect/context-here.ts';

const FLOAT = 4;
/** Node, TensorFlow's library and its threads, before a policy is loaded. */
const ENGINE_BYTES = 500 * 2 ** 20;
/** Copies of the weights: two versions to sample from; for training the weights, gradient and two moments. */
const SAMPLED = 2;
const TRAINED = 4;
/** KiB for a rollout of a few turns, measured with the quickstart (docs/results.md). */
const HISTORY_KIB = 40;
const STORE_KIB = 13;

export const gibibytes = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.max(1, Math.round(bytes / 2 ** 20))} MiB`;

/** Bytes that a pass keeps of each token for its backward part. */
function bytesPerToken(
  { layers, hiddenSize, intermediateSize, vocabSize }: ModelConfig,
  checkpointing: boolean,
): number {
  const layer = 10 * hiddenSize + 4 * intermediateSize;
  return FLOAT * ((checkpointing ? layers * hiddenSize + layer : layers * layer) + 3 * vocabSize);
}

interface EngineMemory {
  readonly weights: number;
  readonly cache: number;
  readonly pass: number;
}

/** Bytes of a worker that samples and trains. An adapter's own part is ignored: it is small compared with its base. */
export function engineMemory(
  model: ModelConfig,
  { algorithm, policy }: Pick<RunConfig, 'algorithm' | 'policy'>,
  env: NodeJS.ProcessEnv,
): EngineMemory {
  const one = FLOAT * parameterCount(layoutOf(model));
  const critic = algorithm.critic === undefined ? 0 : algorithm.critic.lora ? one : TRAINED * one;
  const trained = policy.lora ? one : TRAINED * one;
  return {
    weights: SAMPLED * one + trained + critic,
    cache: cacheBudget(env, gpuDevices(env).length > 0),
    pass: algorithm.microBatchTokens * bytesPerToken(model, algorithm.gradientCheckpointing ?? false),
  };
}

function diskLine({ batch, steps }: RunConfig, { env, ownCluster }: Surroundings): string {
  const rollouts =
    batch.tasks * batch.samples * (batch.dynamicSampling.type === 'none' ? 1 : batch.dynamicSampling.maxSampleBatches);
  const bytes = (kib: number) => gibibytes(kib * 1024 * rollouts);
  const kept = ownCluster
    ? "its namespace's retention is over"
    : `${readRetention(env)}h after it closed (${RETENTION_VARIABLE})`;
  return (
    `disk: a step adds up to ${bytes(HISTORY_KIB)} to Temporal's database, kept until ${kept}, ` +
    `and ${bytes(STORE_KIB)} to the store, ${gibibytes(STORE_KIB * 1024 * rollouts * steps)} in ${steps} steps ` +
    '(npx longhaul prune)'
  );
}

async function contextLine(config: RunConfig, around: Surroundings): Promise<string[]> {
  const context = await contextHere(config.policy.base, around);
  if (context === undefined) return [];
  const { maxContextTokens: asked = config.policy.maxContextTokens ?? context.tokens } = config.agent;
  const tokens = Math.min(asked, context.tokens);
  const { bytesPerToken, cacheBytes } = context;
  const full = tokens * bytesPerToken;
  return [
    `context: ${tokens} tokens of prompt and answers, ${gibibytes(full)} of keys and values each, ` +
      `and ${Math.floor(cacheBytes / full)} of them fit the cache at once; the policy has ${context.tokens} here ` +
      `(${contextBound(context)})`,
  ];
}

/** Without memory if the model is not here (on a hub) or unreadable (refused elsewhere). `home`: the stack's. */
export async function memoryLines(config: RunConfig, shell: NodeJS.ProcessEnv, home: string): Promise<string[]> {
  const around = surroundings(shell, home);
  const { env } = around;
  const model = await resolveModel(config.policy.base)
    .then(readModelConfig)
    .catch(() => undefined);
  if (model === undefined) return [diskLine(config, around)];
  const { weights, cache, pass } = engineMemory(model, config, env);
  const workers = planGpuPool(env, { devices: gpuDevices(env), cores: availableParallelism() }).length;
  const each = workers > 1 ? `each of ${workers} GPU workers` : 'the GPU worker';
  return [
    ...(await contextLine(config, around)),
    `memory: ${each} takes up to ${gibibytes(ENGINE_BYTES + weights + cache + pass)}: ` +
      `${gibibytes(ENGINE_BYTES)} without a policy, weights ${gibibytes(weights)}, ` +
      `cached keys and values at most ${gibibytes(cache)} (LONGHAUL_KV_CACHE_MIB), ` +
      `a pass of ${config.algorithm.microBatchTokens} tokens about ${gibibytes(pass)} ` +
      '(algorithm.microBatchTokens); ' +
      'every other worker and the server about 300 MiB',
    diskLine(config, around),
  ];
}
