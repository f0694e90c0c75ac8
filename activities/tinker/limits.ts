/** The limits of draining lanes: how long, how often, how much. Times in milliseconds. */

import { totalmem } from 'node:os';

export interface DrainLimits {
  /** How long a hold lives that is not renewed, and how often it is. */
  readonly holdMs: number;
  readonly renewMs: number;
  /** An execution ends when its lane was empty for so long. */
  readonly idleMs: number;
  /** It ends after so long in any case, so that a deploy need not wait; another one continues. */
  readonly sliceMs: number;
  /** A model is saved after so much work since its last state: a rebuild repeats no more than that. */
  readonly saveAfter: { readonly operations: number; readonly tokens: number; readonly milliseconds: number };
  /** The most time that saving may take, as a share of the work that it saves. */
  readonly savingShare: number;
  /** Executions of one operation whose workers were lost: then it fails. From `suspect` on, a sample runs alone. */
  readonly lost: number;
  readonly suspect: number;
  /** Executions of one operation that fail for other reasons than its input: then it fails. */
  readonly failures: number;
  readonly pauseMs: number;
  /** One execution of an operation, the wait for its turn apart. */
  readonly operationMs: number;
  /** Models that are in memory at once, and the memory that they may take. */
  readonly residents: number;
  readonly residentBytes: number;
  /** Samples that run at once. */
  readonly samples: number;
  /** Bodies of operations that are read at once. */
  readonly readBytes: number;
}

export const DRAIN_LIMITS: DrainLimits = {
  holdMs: 30_000,
  renewMs: 5_000,
  idleMs: 20_000,
  sliceMs: 30 * 60_000,
  saveAfter: { operations: 256, tokens: 2 ** 20, milliseconds: 30_000 },
  savingShare: 0.1,
  lost: 5,
  suspect: 2,
  failures: 3,
  pauseMs: 1_000,
  operationMs: 60 * 60_000,
  residents: 64,
  residentBytes: Math.floor(totalmem() / 8),
  samples: 64,
  readBytes: 32 * 2 ** 20,
};
