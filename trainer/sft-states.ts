/**
 * The saved states of a supervised training: folders `step-N`, each a complete policy in Hugging Face layout with its
 * optimizer's moments. A training continues from the last one with the same bits.
 */

import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { isMadeFrom, readCheckpointRecord, writeCheckpoint } from './checkpoints/checkpoint.ts';
import { type Trainee, trainedPart } from './resident-policy.ts';

export interface StateSettings {
  readonly dir: string;
  /** Names what is trained, and on what: settings, data and first policy. */
  readonly input: string;
  /** True to keep all states; otherwise only the last one. */
  readonly keep?: boolean;
  /** Called when a state was saved, and when training continues from one. */
  readonly onState?: (steps: number, event: 'saved' | 'found') => void;
}

/** How well a policy predicts the tokens that count of the evaluation's sequences. */
export interface SftEvaluation {
  /** Steps taken before it, of all stages. */
  readonly steps: number;
  /** Mean −log p. In nats. */
  readonly loss: number;
  /** Share of the tokens that are the policy's most likely ones. */
  readonly accuracy: number;
  readonly targets: number;
}

/** How far a training is. */
export interface SftProgress {
  /** Steps taken, of all stages. */
  readonly steps: number;
  readonly tokens: number;
  readonly evaluations: readonly SftEvaluation[];
}

/** The folder's states are of other settings, other data, or another first policy. */
export class OtherTraining extends Error {
  override readonly name = 'OtherTraining';
  readonly dir: string;

  constructor(dir: string) {
    super(`${dir} has saved states of another training: other settings, other data, or another first policy`);
    this.dir = dir;
  }
}

const nameOf = (steps: number): string => `step-${steps}`;

/** The numbers of steps of the saved states, ascending. */
async function savedSteps(dir: string): Promise<number[]> {
  const names = await readdir(dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const steps = names.flatMap((name) => /^step-(\d+)$/u.exec(name)?.[1] ?? []).map(Number);
  return steps.sort((a, b) => a - b);
}

/** The last state. Errors: `OtherTraining`. */
export async function findState({ dir, input, onState }: StateSettings) {
  const steps = (await savedSteps(dir)).at(-1);
  if (steps === undefined) return undefined;
  const state = path.join(dir, nameOf(steps));
  const record = await readCheckpointRecord(state);
  if (record === undefined || !isMadeFrom(record, input)) throw new OtherTraining(dir);
  onState?.(steps, 'found');
  return { dir: state, progress: record.metrics as SftProgress };
}

/** Saves a state, then removes the earlier ones. `fromDir`: the directory of the tokenizer's files. */
export async function saveState(
  { dir, input, keep, onState }: StateSettings,
  { learner, optimizer }: Trainee,
  progress: SftProgress,
  fromDir: string,
): Promise<void> {
  const { policy } = learner;
  await writeCheckpoint(path.join(dir, nameOf(progress.steps)), {
    ...trainedPart(learner),
    optimizer: { steps: optimizer.steps, moments: optimizer.save(policy.trainable.layout) },
    step: progress.steps,
    version: progress.steps,
    fromDir,
    config: policy.config,
    input,
    metrics: progress,
  });
  onState?.(progress.steps, 'saved');
  if (keep === true) return;
  for (const earlier of await savedSteps(dir))
    if (earlier < progress.steps) await rm(path.join(dir, nameOf(earlier)), { recursive: true });
}
