/** Supervised training on token sequences: the same seed and data give the same policy. */

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
  /** Within the stage, from 0. */
  readonly step: number;
  readonly batchSize: number;
}

export type SftData =
  | ((request: SftBatchRequest) => readonly TokenSequence[] | Promise<readonly TokenSequence[]>)
  | AsyncIterable<readonly TokenSequence[]>;

export interface SftStep {
  readonly stage: number;
  readonly step: number;
  /** Mean −log p over the step's tokens that count, before it; nats. */
  readonly loss: number;
  readonly gradNorm: number;
  readonly learningRate: number;
  /** Tokens read, padding left out, and those that count. */
  readonly tokens: number;
  readonly targets: number;
}

export interface SftRequest {
  /** A fresh policy of this shape, or the directory of one to go on from. */
  readonly initial: ModelConfig | string;
  readonly data: SftData;
  readonly stages: readonly SftStage[];
  readonly seed: number;
  /** Written complete or not at all: the policy, without the optimizer's moments. */
  readonly toDir: string;
  /** Where the tokenizer's files are copied from; needed for a fresh policy. */
  readonly tokenizerDir?: string;
  readonly optimizer?: Partial<Omit<AdamWSettings, 'learningRate'>>;
  /** Trains an adapter beside `initial`, which is a directory then. */
  readonly lora?: NewLora;
  /** Tokens per pass: padded, or with `packing` as they are; left out: 8192. */
  readonly microBatchTokens?: number;
  readonly packing?: boolean;
  readonly gradientCheckpointing?: boolean;
  readonly onStep?: (step: SftStep) => void;
}

const defaults = { betas: [0.9, 0.98], epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 } as const;

/** Data that ended before the stages did. */
export class OutOfData extends Error {
  override readonly name = 'OutOfData';
}

function reader(data: SftData): (request: SftBatchRequest) => Promise<readonly TokenSequence[]> {
  if (typeof data === 'function') return async (request) => data(request);
  const iterator = data[Symbol.asyncIterator]();
  return async ({ stage, step }) => {
    const next = await iterator.next();
    if (next.done === true) throw new OutOfData(`no batch for step ${step} of stage ${stage}`);
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
  if (targets === 0) throw new OutOfData('a batch has no token that counts');
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

/** Errors: `TrainingDiverged`, `OutOfData`, those of reading `initial`. Returns what `longhaul.json` says. */
export async function runSft(request: SftRequest): Promise<CheckpointRecord> {
  const { initial, tokenizerDir, toDir } = request;
  const fromDir = tokenizerDir ?? (typeof initial === 'string' ? initial : undefined);
  if (fromDir === undefined) throw new TypeError('runSft: a fresh policy needs tokenizerDir');
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
