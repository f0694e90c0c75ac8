/** The input and the result of an update: rollouts by the names of their batches, weights by their directory. */

import type { NewLora } from './algorithm.ts';
import type { ReplaceSettings } from './batch.ts';
import type { PolicyRef } from './policy.ts';
import type { AlgorithmSettings } from './run-config.ts';
import type { StepRecord } from './step-record.ts';

export interface UpdateInput {
  readonly run: string;
  readonly runDir: string;
  readonly step: number;
  /** Steps of the run as configured now: the learning rate's schedule depends on it. */
  readonly steps: number;
  /** Workflow ids of batches: the update trains on the rollouts in their manifests. */
  readonly batches: readonly string[];
  /** If rollouts and updates overlap: the unit numbers of these batches. */
  readonly units?: readonly number[];
  readonly samples: number;
  /** Groups of each batch to train on: the first this many groups that vary, in task order. Absent: all that vary. */
  readonly wanted?: number;
  /** Of the groups drawn last, those that do not vary are replaced. Groups drawn earlier are left out. */
  readonly replace?: ReplaceSettings;
  /** A rollout is masked if a token is more versions old than this. Absent: never. */
  readonly maskStaleness?: number;
  readonly policy: PolicyRef;
  readonly algorithm: AlgorithmSettings;
  readonly lora?: NewLora;
  /** True if a step with no graded rollout keeps its policy unchanged. Absent: such a step is an error. */
  readonly mayBeUngraded?: boolean;
  /** If more than one, `planUpdate`, `forwardBackward` and `optimStep` have computed the update before. */
  readonly shards?: number;
}

/** The plan of an update in shards. */
export interface UpdateRounds {
  /** Folder of the update's files. */
  readonly dir: string;
  /** Digest of the plan. */
  readonly plan: string;
  /** Number of shards of each optimizer step. Empty if there is nothing to do before `update`. */
  readonly rounds: readonly number[];
}

/** One optimizer step of an update in shards. */
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
  /** Of the weights; `null` if the backend does not report it. */
  readonly sha256: string | null;
  /** The step's record without the durations, which the workflow measures. */
  readonly record: Omit<StepRecord, 'seconds'>;
}
