/**
 * Supervised training on token sequences. The same seed and data give the same policy, also if training was ended in
 * between and continued from a saved state.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import { AdamW, type AdamWSettings } from './optimizer.ts';
import { learningRateAt } from './learning-rate.ts';
import { microBatches } from './data/batching.ts';
import { type CheckpointRecord, writeCheckpoint } from './checkpoints/checkpoint.ts';
import type { NewLora, RateSchedule } from '../protocol/algorithm.ts';
import { Learner } from './learner.ts';
import { findState, type SftEvaluation, type SftProgress, saveState, type StateSettings } from './sft-states.ts';
import type { ModelConfig } from './model/config.ts';
import { initializeWeights } from './model/initialize.ts';
import { batchOf } from './model/packed-batch.ts';
import type { Batching } from './passes.ts';
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
  /** Before the first step, every so many steps (of all stages), and after the last step. */
  readonly evaluation?: {
    readonly sequences: readonly TokenSequence[];
    readonly every: number;
    readonly onEvaluation?: (evaluation: SftEvaluation) => void;
  };
  /** Saves a state every so many steps (0: never), and continues from the last one that is there. */
  readonly states?: StateSettings & { readonly every: number };
  /** When it is aborted, the state after the running step is saved, and training fails with the signal's reason. */
  readonly signal?: AbortSignal;
}

const defaults = { betas: [0.9, 0.98], epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: 1 } as const;

/** The data ended before the last step, or a batch has no token to train on. */
export class OutOfData extends Error {
  override readonly name = 'OutOfData';
}

function batchReader(data: SftData): (request: SftBatchRequest) => Promise<readonly TokenSequence[]> {
  if (typeof data === 'function') return async (request) => data(request);
  const iterator = data[Symbol.asyncIterator]();
  return async ({ stage, step }) => {
    const next = await iterator.next();
    if (next.done === true) throw new OutOfData(`the data ended before step ${step} of stage ${stage}`);
    return next.value;
  };
}

async function initialTrainee({ initial, seed, lora }: SftRequest, saved: string | undefined): Promise<Trainee> {
  if (saved !== undefined) return loadTrainee(saved);
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

function evaluate({ learner }: Trainee, sequences: readonly TokenSequence[], batching: Batching, steps: number) {
  const useful = sequences.filter((sequence) => countTargets(sequence) > 0);
  let [loss, right, targets] = [0, 0, 0];
  for (const micro of microBatches(useful, batching)) {
    const found = learner.evaluate(batchOf(micro, batching));
    loss -= found.logprobs.reduce((sum, x) => sum + x, 0);
    right += found.right.reduce((sum, x) => sum + x, 0);
    targets += found.logprobs.length;
  }
  return { steps, loss: loss / targets, accuracy: right / targets, targets };
}

/** A training under way: what it was asked for, its policy, and how far it is. */
class Training {
  readonly #request: SftRequest;
  readonly #trainee: Trainee;
  readonly #batching: Batching;
  readonly #next: ReturnType<typeof batchReader>;
  readonly #total: number;
  #progress: SftProgress;

  constructor(request: SftRequest, trainee: Trainee, progress: SftProgress) {
    this.#request = request;
    this.#trainee = trainee;
    this.#batching = { microBatchTokens: request.microBatchTokens ?? 8192, packing: request.packing ?? false };
    this.#next = batchReader(request.data);
    this.#total = request.stages.reduce((sum, { steps }) => sum + steps, 0);
    this.#progress = progress;
    trainee.learner.gradientCheckpointing = request.gradientCheckpointing ?? false;
  }

  get progress(): SftProgress {
    return this.#progress;
  }

  async run(): Promise<void> {
    const { stages, data, signal } = this.#request;
    const from = this.#progress.steps;
    if (from === 0) this.#evaluateWhenDue();
    let number = 0;
    for (const [index, stage] of stages.entries()) {
      for (let step = 0; step < stage.steps; step++) {
        const request = { stage: index, step, batchSize: stage.batchSize };
        number += 1;
        if (number > from) {
          this.#step(stage, request, await this.#next(request));
          await this.#saveWhenDue();
          signal?.throwIfAborted();
          await nextTurn();
        } else if (typeof data !== 'function') await this.#next(request);
      }
    }
  }

  #step(stage: SftStage, { stage: index, step }: SftBatchRequest, sequences: readonly TokenSequence[]): void {
    const { optimizer, onStep } = this.#request;
    const learningRate = learningRateAt(stage, step, stage.steps);
    const done = learnBatch(this.#trainee, sequences, this.#batching, { ...defaults, ...optimizer, learningRate });
    const { steps, tokens, evaluations } = this.#progress;
    this.#progress = { steps: steps + 1, tokens: tokens + done.tokens, evaluations };
    onStep?.({ stage: index, step, learningRate, ...done });
    this.#evaluateWhenDue();
  }

  #evaluateWhenDue(): void {
    const { evaluation } = this.#request;
    const { steps } = this.#progress;
    if (evaluation === undefined || (steps % evaluation.every !== 0 && steps !== this.#total)) return;
    const found = evaluate(this.#trainee, evaluation.sequences, this.#batching, steps);
    this.#progress = { ...this.#progress, evaluations: [...this.#progress.evaluations, found] };
    evaluation.onEvaluation?.(found);
  }

  async #saveWhenDue(): Promise<void> {
    const { states, signal } = this.#request;
    const { steps } = this.#progress;
    if (states === undefined || states.every === 0 || steps === this.#total) return;
    if (steps % states.every !== 0 && signal?.aborted !== true) return;
    await saveState(states, this.#trainee, this.#progress, fromDirOf(this.#request));
  }
}

/** The directory of the tokenizer's files. */
function fromDirOf({ initial, tokenizerDir }: SftRequest): string {
  const fromDir = tokenizerDir ?? (typeof initial === 'string' ? initial : undefined);
  if (fromDir === undefined) throw new TypeError('runSft: a new policy needs tokenizerDir');
  return fromDir;
}

/** The content of `longhaul.json`, and the whole training's counts. */
export interface SftResult extends CheckpointRecord {
  readonly progress: SftProgress;
}

/** Errors: `TrainingDiverged`, `OutOfData`, `OtherTraining`, those of reading `initial`; the reason of `signal`. */
export async function runSft(request: SftRequest): Promise<SftResult> {
  const fromDir = fromDirOf(request);
  const saved = request.states && (await findState(request.states));
  const trainee = await initialTrainee(request, saved?.dir);
  try {
    const training = new Training(request, trainee, saved?.progress ?? { steps: 0, tokens: 0, evaluations: [] });
    await training.run();
    const { progress } = training;
    const { policy } = trainee.learner;
    const { record } = await writeCheckpoint(request.toDir, {
      ...trainedPart(trainee.learner),
      optimizer: undefined,
      step: 0,
      version: 0,
      fromDir,
      config: policy.config,
      ...(progress.evaluations.length > 0 && { metrics: { evaluations: progress.evaluations } }),
    });
    return { ...record, progress };
  } finally {
    disposeTrainee(trainee);
  }
}
