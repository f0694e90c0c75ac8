/** Units of rollouts that have started and are not trained on yet. Used if rollouts and updates overlap. */

import type { PolicyRef } from './policy.ts';

/** Rollouts that are trained on together: a group, or a whole step's batch. */
export interface Unit {
  /** Counts from 1, in the order in which units start. */
  readonly number: number;
  /** The policy at its start. */
  readonly policy: Pick<PolicyRef, 'uri' | 'version'>;
  /** The last step that may train on it. */
  readonly lastStep: number;
}

/** It is JSON, so that it can be passed to a new history and kept in the store. */
export interface AdmissionState {
  /** Number of units started so far. */
  readonly begun: number;
  readonly running: readonly Unit[];
  /** Ended and not trained on yet, in the order in which they ended. */
  readonly ended: readonly Unit[];
}
