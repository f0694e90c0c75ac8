/** What draining a lane needs of the engine: adapters that train and samples of adapters, on one copy of each base. */

import type { TinkerSample, TinkerSampleResult } from '../../protocol/tinker.ts';
import type { AdapterTrainer } from '../../trainer/tenants/definition.ts';

export interface TinkerEngine {
  /** The trainer of a base, which has one copy of it. `dir`: in Hugging Face layout. */
  trainerOf(dir: string): Promise<AdapterTrainer>;
  /**
   * Samples from a base, or from a checkpoint's adapter on it. The same sample gives the same tokens, whatever else is
   * sampled beside it. Errors: `UserInputError` for a sample that cannot be.
   */
  sample(
    base: string,
    adapter: string | undefined,
    sample: TinkerSample,
    signal: AbortSignal,
  ): Promise<TinkerSampleResult>;
}

/** True if the caller's input is at fault. Errors of the engine's thread have the name of their class alone. */
export function isUsersFault(error: unknown): error is Error {
  return error instanceof Error && error.name === 'UserInputError';
}
