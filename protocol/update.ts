/** What an update is asked for and what it answers: rollouts by the names of their batches, weights by their directory. */

import type { NewLora } from './algorithm.ts';
import type { ReplaceSettings } from './batch.ts';
import type { PolicyRef } from './policy.ts';
import type { AlgorithmSettings } from './run-config.ts';
import type { StepRecord } from './step-record.ts';

export interface UpdateInput {
  readonly run: string;
  readonly runDir: string;
  readonly step: number;
  /** Steps of the run, as far as is known now: what the learning rate's schedule is over. */
  readonly steps: number;
  /** By workflow id: the update trains on what their manifests name. */
  readonly batches: readonly string[];
  /** Where rollouts and updates overlap: the units that these are, by number. */
  readonly units?: readonly number[];
  readonly samples: number;
  /** Groups of each batch to train on: the first so many of its tasks that vary; absent: all that do. */
  readonly wanted?: number;
  /** Of the groups that were drawn last, those that do not vary are replaced; those before them are left out. */
  readonly replace?: ReplaceSettings;
  /** A rollout with a token that is more versions old than this is masked; absent: none is. */
  readonly maskStaleness?: number;
  readonly policy: PolicyRef;
  readonly algorithm: AlgorithmSettings;
  readonly lora?: NewLora;
  /** Where no rollout was graded the policy goes on unchanged; absent: that is an error. */
  readonly mayBeUngraded?: boolean;
  /** More than one: `planUpdate`, `forwardBackward` and `optimStep` have made it before. */
  readonly shards?: number;
}

/** An update in shards, as it was laid down. */
export interface UpdateRounds {
  /** Folder of the update's own files. */
  readonly dir: string;
  /** Digest of the plan. */
  readonly plan: string;
  /** Shards of each optimizer step; empty where there is nothing to do before `update`. */
  readonly rounds: readonly number[];
}

/** One optimizer step of such an update. */
export interface RoundInput extends Pick<UpdateInput, 'run' | 'step'> {
  readonly dir: string;
  readonly plan: string;
  /** From 0. */
  readonly round: number;
}

export interface ShardInput extends RoundInput {
  readonly shard: number;
}

export interface UpdateOutcome {
  readonly policy: PolicyRef;
  readonly sha256: string;
  /** All of the step's record but the times, which the workflow knows. */
  readonly record: Omit<StepRecord, 'seconds'>;
}
