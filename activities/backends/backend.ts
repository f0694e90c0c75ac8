/**
 * What activities ask of the backend that holds a policy: the embedded engine, or one that a module defines. Activities
 * know policies by URI alone.
 */

import type { Patience } from '../../store/disk-patience.ts';
import type { Store } from '../../store/store.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { IdsAnswer, IdsCall, PolicyTokenizer } from '../generate/sample-ids.ts';
import type { TrainingData } from '../update/training-data.ts';

/** One model call. */
export interface TurnRequest extends IdsCall {
  readonly policy: { readonly uri: string; readonly version: number; readonly digest: string };
  readonly rollout: string;
  /** Seed of this call's noise. */
  readonly noiseKey: string;
  /** Place in the engine's queue. */
  readonly priority?: number;
}

export interface UpdateContext {
  readonly store: Store;
  readonly progress: (fraction: number) => void;
  readonly patience: Patience;
  /** Ends when nobody waits for the update any more. */
  readonly signal: AbortSignal;
}

export interface UpdateMade {
  readonly policy: PolicyRef;
  /** SHA-256 of the weights; `null` if the backend does not report it. */
  readonly sha256: string | null;
  readonly metrics: Omit<UpdateMetrics, 'sha256'>;
  readonly learningRate: number;
}

export interface Backend {
  /** Names the policy's contents. Errors: `CheckpointTorn`, those of a defined backend. */
  digestOf(uri: string): Promise<string>;
  tokenizerOf(uri: string): Promise<PolicyTokenizer>;
  /** False if it is certain that there has never been such a policy, unless it was removed. */
  hasPolicy(uri: string): boolean;
  /** Absent: texts may end an answer. */
  readonly takesStop?: boolean;
  /** Most tokens of prompt and answer. `undefined`: the engine alone knows where the context ends. */
  contextOf(uri: string): Promise<number | undefined>;
  sample(request: TurnRequest, signal: AbortSignal, onCost: (cost: GenerateCost) => void): Promise<IdsAnswer>;
  /**
   * Makes the next version from `input.policy`, or finds the one that an earlier attempt has made. If the data teaches
   * nothing, it is the same policy under the next version.
   */
  update(input: UpdateInput, data: TrainingData, context: UpdateContext): Promise<UpdateMade>;
  /** Errors: `CheckpointTorn` if what is there now is not what was recorded. */
  checkRecorded(made: Pick<UpdateMade, 'policy' | 'sha256'>): Promise<void>;
}

export interface Backends {
  /**
   * The backend of a policy. `modules`: the digest of the modules that may define it, if the scheme is not of the
   * embedded engine. Errors: `UserInputError` for a scheme without a backend; those of importing the modules.
   */
  of(uri: string, modules: () => Promise<ObjectRef | undefined>): Promise<Backend>;
}
