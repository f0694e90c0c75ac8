/** Finds the new steps in each status of a run: every step once and in order, or an error that names missed ones. */

import type { StepRecord } from '../protocol/step-record.ts';
import type { TrainStatus } from '../protocol/train-status.ts';

/** Steps `first` to `last` ended between two polls, and the run's status no longer has them. */
export class StepsMissed extends Error {
  override readonly name = 'StepsMissed';
  readonly first: number;
  readonly last: number;

  constructor(run: string, first: number, last: number) {
    const which = first === last ? `step ${first}` : `steps ${first}–${last}`;
    super(
      `Missed ${which} of run ${run}: the run keeps only the last 20. See its metrics.jsonl; ` +
        `steps(${last}) continues after them`,
    );
    this.first = first;
    this.last = last;
  }
}

export class NewSteps {
  readonly #run: string;
  #seen: number;
  /** False until the first status of a run that has started: steps that ended before are not missed ones. */
  #isAsked = false;

  constructor(run: string, after: number) {
    this.#run = run;
    this.#seen = after;
  }

  /** Errors: `StepsMissed`. */
  in({ step, steps, recent }: Pick<TrainStatus, 'step' | 'steps' | 'recent'>): readonly StepRecord[] {
    // The run's configuration is still being checked: it does not know its recorded steps yet.
    if (steps === 0) return [];
    const fresh = recent.filter((record) => record.step > this.#seen);
    const oldest = fresh[0]?.step ?? step + 1;
    if (this.#isAsked && oldest > this.#seen + 1) throw new StepsMissed(this.#run, this.#seen + 1, oldest - 1);
    this.#isAsked = true;
    this.#seen = Math.max(this.#seen, step);
    return fresh;
  }
}
