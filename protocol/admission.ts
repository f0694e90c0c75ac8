/** Units of rollouts that have begun and are not trained on, where rollouts and updates overlap. */

/** Rollouts that are trained on together: a group, or a whole step's batch. */
export interface Unit {
  /** From 1, in the order of their begin. */
  readonly number: number;
  /** The policy that it began with. */
  readonly policy: { readonly dir: string; readonly version: number };
  /** The last step that may train on it. */
  readonly lastStep: number;
}

/** JSON, so that it can be carried into a new history and kept in the store. */
export interface AdmissionState {
  readonly begun: number;
  readonly running: readonly Unit[];
  /** Not trained on yet, in the order of their end. */
  readonly ended: readonly Unit[];
}
