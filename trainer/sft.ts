/** Supervised training on token sequences. The same seed and data give the same policy. */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { AdamW, type AdamWSettings } from './optimizer.ts';
import { learningRateAt } from './learning-rate.ts';
import { microBatches } from './data/batching.ts';
import { type CheckpointRecord, writeCheckpoint } from './checkpoints/checkpoint.ts';
import type { NewLora, RateSchedule } from '../protocol/algorithm.ts';
import { Learner } from './learner.ts';
import type { ModelConfig } from './model/config.ts';
import { initializeWeights } from './model/initialize.ts';
import { type Batching, batchOf } from './model/packed-batch.ts';
import { type TokenSequence, countTargets } from './model/token-batch.ts';
import { type Trainee, disposeTrainee, loadTrainee, trainedPart } from './resident-policy.ts';

export interface SftStage extends RateSchedule {
  readonly steps: number;
  /** Sequences per step. */
  readonly batchSize: number;
}

export interface SftBatchRequest {
  readonly stage: number;
  /** Number within the stage, from 0. */
  readonly step: number;
  readonly batchSize: number;
}

export type SftData =
  | ((request: SftBatchRequest) => readonly TokenSequence[] | Promise<readonly TokenSequence[]>)
  | AsyncIterable<readonly TokenSequence[]>;

export interface SftStep {
  readonly stage: number;
  readonly step: number;
  /** Mean −log p over the batch's tokens that count, before the step. In nats. */
  readonly loss: number;
  readonly gradNorm: number;
  readonly learningRate: number;
  /** Number of tokens, without padding. */
  readonly tokens: number;
  /** Number of tokens that count. */
  readonly targets: number;
}

export interface SftRequest {
  /** The configuration of a new policy, or the directory of a policy to continue from. */
  readonly initial: ModelConfig | string;
  readonly data: SftData;
  readonly stages: readonly SftStage[];
  readonly seed: number;
  /** The result's directory: the policy without the optimizer's moments. Written complete or not at all. */
  readonly toDir: string;
  /** Directory that the tokenizer's files are copied from; required for a new policy. */
  readonly tokenizerDir?: string;
  readonly optimizer?: Partial<Omit<AdamWSettings, 'learningRate'>>;
  /** Trains a new adapter for `initial`, which must then be a directory. */
  readonly lora?: NewLora;
  /** Tokens per pass, including padding; with `packing`, without. Default: 8192. */
  readonly microBatchTokens?: number;
  readonly packing?: boolean;
  readonly gradientCheckpointing?: boolean;
  readonly onStep?: (step: SftStep) => void;
}

const defaults = { betas: [0.9, 0.98], epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 } as const;

/** The data ended before the last step, or a batch has no token to train on. */
export class OutOfData extends Error {
  override readonly name = 'OutOfData';
}

function reader(data: SftData): (request: SftBatchRequest) => Promise<readonly TokenSequence[]> {
  if (typeof data === 'function') return async (request) => data(request);
  const iterator = data[Symbol.asyncIterator]();
  return async ({ stage, step }) => {
    const next = await iterator.next();
    if (next.done === true) throw new OutOfData(`the data ended before step ${step} of stage ${stage}`);
    return next.value;
  };
}

async function initialTrainee({ initial, seed, lora }: SftRequest): Promise<Trainee> {
  if (typeof initial === 'string') return loadTrainee(initial, lora);
  const learner = new Learner(initial, initializeWeights(initial, `sft ${seed}`));
  return { learner, optimizer: AdamW.fresh(learner.policy.trainable.layout) };
}

/** One step of masked cross-entropy, mean over the tokens that count. */
function learnBatch(
  { learner, optimizer }: Trainee,
  sequences: readonly TokenSequence[],
  batching: Batching,
  settings: AdamWSettings,
): Pick<SftStep, 'loss' | 'gradNorm' | 'tokens' | 'targets'> {
  const useful = sequences.filter((sequence) => countTargets(sequence) > 0);
  const targets = useful.reduce((sum, sequence) => sum + countTargets(sequence), 0);
  if (targets === 0) throw new OutOfData('a batch has no token to train on');
  let loss = 0;
  for (const micro of microBatches(useful, batching)) {
    learner.forwardBackward(batchOf(micro, batching), false, ({ logprobs }) => {
      loss -= logprobs.reduce((sum, x) => sum + x, 0);
      return new Float32Array(logprobs.length).fill(-1 / targets);
    });
  }
  const gradNorm = optimizer.apply(learner.policy.trainable, learner.gradients.flatten(learner.policy), settings);
  const tokens = useful.reduce((sum, sequence) => sum + sequence.tokens.length, 0);
  return { loss: loss / targets, gradNorm, tokens, targets };
}

async function runStages(request: SftRequest, trainee: Trainee): Promise<void> {
  const next = reader(request.data);
  const batching = { microBatchTokens: request.microBatchTokens ?? 8192, packing: request.packing ?? false };
  trainee.learner.gradientCheckpointing = request.gradientCheckpointing ?? false;
  for (const [index, stage] of request.stages.entries()) {
    for (let step = 0; step < stage.steps; step++) {
      const sequences = await next({ stage: index, step, batchSize: stage.batchSize });
      const learningRate = learningRateAt(stage, step, stage.steps);
      const settings = { ...defaults, ...request.optimizer, learningRate };
      const done = learnBatch(trainee, sequences, batching, settings);
      request.onStep?.({ stage: index, step, learningRate, ...done });
      await nextTurn();
    }
  }
}

/** Errors: `TrainingDiverged`, `OutOfData`, those of reading `initial`. Returns the content of `longhaul.json`. */
export async function runSft(request: SftRequest): Promise<CheckpointRecord> {
  const { initial, tokenizerDir, toDir } = request;
  const fromDir = tokenizerDir ?? (typeof initial === 'string' ? initial : undefined);
  if (fromDir === undefined) throw new TypeError('runSft: a new policy needs tokenizerDir');
  const trainee = await initialTrainee(request);
  try {
    await runStages(request, trainee);
    const { policy } = trainee.learner;
    const written = await writeCheckpoint(toDir, {
      ...trainedPart(trainee.learner),
      optimizer: undefined,
      step: 0,
      version: 0,
      fromDir,
      config: policy.config,
    });
    return written.record;
  } finally {
    disposeTrainee(trainee);
  }
}
