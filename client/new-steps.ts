/** What each look at a run brings that is new: every step once and in its order, or an error that names those that are lost. */

import type { StepRecord } from '../protocol/step-record.ts';
import type { TrainStatus } from '../protocol/train-status.ts';

/** Steps `first` to `last` ended between two looks, and were gone from what the run tells by the second. */
export class StepsMissed extends Error {
  override readonly name = 'StepsMissed';
  readonly first: number;
  readonly last: number;

  constructor(run: string, first: number, last: number) {
    const which = first === last ? `step ${first}` : `steps ${first} to ${last}`;
    super(
      `${which} of run ${run} ended without being seen, and the run tells its last 20 alone: its metrics.jsonl has all; steps(${last}) goes on behind`,
    );
    this.first = first;
    this.last = last;
  }
}

export class NewSteps {
  readonly #run: string;
  #seen: number;
  /** Before the first look at a run that has begun, steps ended that nobody had asked for yet. */
  #isAsked = false;

  constructor(run: string, after: number) {
    this.#run = run;
    this.#seen = after;
  }

  /** Errors: `StepsMissed`. */
  in({ step, steps, recent }: Pick<TrainStatus, 'step' | 'steps' | 'recent'>): readonly StepRecord[] {
    // Its configuration is still being checked: it does not know how far its records go.
    if (steps === 0) return [];
    const fresh = recent.filter((record) => record.step > this.#seen);
    const told = fresh[0]?.step ?? step + 1;
    if (this.#isAsked && told > this.#seen + 1) throw new StepsMissed(this.#run, this.#seen + 1, told - 1);
    this.#isAsked = true;
    this.#seen = Math.max(this.#seen, step);
    return fresh;
  }
}
