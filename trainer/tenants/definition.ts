/**
 * Many adapters on one base: each has its own weights, gradient and moments; the base has one copy, into which nothing
 * is merged. The same calls in the same order give the same bits, also after `load` of what `save` wrote.
 */

import type { AdamParameters, AdapterSettings, TinkerPass, TinkerPassResult } from '../../protocol/tinker.ts';

export interface SavedAdapter {
  /** Of the adapter's tensors alone. */
  readonly sha256: string;
  readonly bytes: number;
}

export interface AdapterTrainer {
  /** A new adapter, whose output equals the base's. Errors: `UserInputError` for settings that cannot be. */
  create(id: string, settings: AdapterSettings): Promise<void>;
  /** What `save` wrote, under a new or known id. Without `optimizer`, moments and gradient are empty. */
  load(id: string, dir: string, options: { readonly optimizer: boolean }): Promise<void>;
  /**
   * Log-probabilities; with `backward` the gradient is added to the adapter's sum. A pass that throws adds nothing.
   * `signal` stops it before its next batch; then it throws the signal's reason.
   */
  pass(id: string, pass: TinkerPass, signal?: AbortSignal): Promise<TinkerPassResult>;
  /** One AdamW step along the sum, which is then empty. Returns its norm before clipping. */
  optimStep(id: string, adam: AdamParameters): Promise<{ readonly gradNorm: number }>;
  /**
   * Writes a new directory, complete or not at all: the adapter in PEFT's layout; `training` adds moments, the number
   * of steps and the gradient's sum.
   */
  save(id: string, dir: string, what: 'sampler' | 'training'): Promise<SavedAdapter>;
  /** Frees it. Nothing if it is unknown. */
  drop(id: string): Promise<void>;
}
