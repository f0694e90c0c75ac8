/** Settings that a backend does not support are refused before anything starts, each by its name. */

import type { RunConfig } from '../protocol/run-config.ts';
import type { SamplingParameters } from '../protocol/sampling.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import type { BackendAbilities, BackendDefinition, SamplingOption } from '../trainer/backends/definition.ts';
import { EMBEDDED } from '../trainer/backends/registry.ts';
import { isCorrecting, NO_CORRECTION } from '../trainer/algorithms/off-policy-settings.ts';
import { policyLosses } from '../trainer/algorithms/losses/registry.ts';

type Sampling = Pick<SamplingParameters, 'temperature' | 'topP' | 'topK' | 'minP' | 'repetitionPenalty' | 'stop'>;

/** The options that have an effect, and the names of their settings. */
const SAMPLING: ReadonlyArray<readonly [SamplingOption, keyof Sampling, (sampling: Sampling) => boolean]> = [
  ['greedy', 'temperature', ({ temperature }) => temperature === 0],
  ['topP', 'topP', ({ topP }) => topP < 1],
  ['topK', 'topK', ({ topK }) => topK > 0],
  ['minP', 'minP', ({ minP = 0 }) => minP > 0],
  ['repetitionPenalty', 'repetitionPenalty', ({ repetitionPenalty = 1 }) => repetitionPenalty !== 1],
  ['stop', 'stop', ({ stop = [] }) => stop.length > 0],
];

/** Errors: `UserInputError` for the first option of `sampling` that the backend lacks, under `field`. */
export function checkSampling(backend: BackendAbilities, sampling: Sampling, field: string): void {
  for (const [option, setting, isUsed] of SAMPLING) {
    if (!isUsed(sampling) || backend.sampling.includes(option)) continue;
    throw new UserInputError(
      `${field}.${setting}`,
      sampling[setting],
      `leave it out${option === 'greedy' ? ', or give a temperature above 0' : ''}: ` +
        `backend ${backend.name} does not have ${option}`,
    );
  }
}

/** Errors: `UserInputError` for a context that the backend does not have. */
export function checkContext(backend: BackendAbilities, maxContextTokens = 0, field = 'agent.maxContextTokens'): void {
  const { name, maxContext } = backend;
  if (maxContext === null || maxContextTokens <= maxContext) return;
  throw new UserInputError(field, maxContextTokens, `give at most ${maxContext}, which backend ${name} has`);
}

/** A setting that has an effect, its value, and why the backend cannot use it. */
type Unsupported = readonly [field: string, value: unknown, reason: string] | undefined;

function unsupportedLoss({ losses }: BackendAbilities, { algorithm }: RunConfig): Unsupported {
  if (losses === 'any') return undefined;
  const { loss = 'regular', kl, offPolicyCorrection } = algorithm;
  if (!losses.includes(loss)) return ['algorithm.loss', loss, `give one of ${losses.join(', ')}`];
  if (!policyLosses.has(loss)) return ['algorithm.loss', loss, 'give a loss that is built in'];
  if (kl?.in === 'loss') return ['algorithm.kl.in', kl.in, 'give reward, or leave algorithm.kl out'];
  if (offPolicyCorrection !== undefined && isCorrecting({ ...NO_CORRECTION, ...offPolicyCorrection }))
    return [
      'algorithm.offPolicyCorrection',
      offPolicyCorrection,
      'give { tisRatioType: none, sequenceMaskMetric: none }',
    ];
  return undefined;
}

function unsupported(backend: Partial<BackendDefinition> & BackendAbilities, config: RunConfig): Unsupported {
  const { algorithm, policy, training = { mode: 'sync' }, evaluation } = config;
  const { critic, entropyCoefficient = 0, gradientCheckpointing } = algorithm;
  const { shards } = training;
  if (critic !== undefined && !backend.critic)
    return ['algorithm.critic', critic, 'leave it out, with an advantage that needs none, such as grpo'];
  if (entropyCoefficient > 0 && !backend.entropy) return ['algorithm.entropyCoefficient', entropyCoefficient, 'give 0'];
  if (policy.lora !== undefined && !backend.lora) return ['policy.lora', policy.lora, 'leave it out'];
  if (evaluation.greedy && !backend.sampling.includes('greedy')) return ['evaluation.greedy', true, 'give false'];
  if (backend.name === EMBEDDED.name) return undefined;
  if (shards !== undefined && shards > 1) return ['training.shards', shards, 'leave it out'];
  if (gradientCheckpointing === true) return ['algorithm.gradientCheckpointing', true, 'leave it out'];
  return unsupportedLoss(backend, config) ?? backend.refuse?.(config);
}

/** Errors: `UserInputError` for the first setting that the backend does not support. */
export function checkBackendSettings(backend: Partial<BackendDefinition> & BackendAbilities, config: RunConfig): void {
  const found = unsupported(backend, config);
  if (found !== undefined) {
    const [field, value, remedy] = found;
    throw new UserInputError(field, value, `${remedy}: backend ${backend.name} does not support it`);
  }
  const { policy, sampling } = config;
  checkSampling(backend, sampling, 'sampling');
  checkContext(backend, config.agent.maxContextTokens);
  checkContext(backend, policy.maxContextTokens, 'policy.maxContextTokens');
}
