/**
 * The plan that a worker reads for each of its shards, in memory between them: it is as large as an update's data. It counts
 * for as long as its file is the one that was read, and is let go when nobody asks for a while.
 */

import { type Located, readLocated } from './located-plan.ts';
import { planStamp } from './plan-file.ts';

/** Longer than a step takes between the shards of one worker, as a rule; a plan can be read again. */
const KEPT_MS = 60_000;

export class KnownPlan {
  readonly #keptMs: number;
  #held: Located | undefined;
  #letGo: NodeJS.Timeout | undefined;

  constructor(keptMs = KEPT_MS) {
    this.#keptMs = keptMs;
  }

  /** Whether a plan is in memory. */
  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** The plan of that digest in `dir`. Errors: `PlanLost`, `UnknownPlanFormat`. */
  async of(dir: string, sha256: string): Promise<Located> {
    const held = this.#held;
    if (held?.dir === dir && held.sha256 === sha256 && held.stamp === (await planStamp(dir))) return this.#keep(held);
    this.forget();
    return this.#keep(await readLocated(dir, sha256));
  }

  forget(): void {
    clearTimeout(this.#letGo);
    this.#held = undefined;
  }

  #keep(located: Located): Located {
    clearTimeout(this.#letGo);
    this.#held = located;
    this.#letGo = setTimeout(() => this.forget(), this.#keptMs).unref();
    return located;
  }
}
