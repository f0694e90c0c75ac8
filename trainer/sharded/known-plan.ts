/**
 * Caches a plan in memory between the shards of a worker, since a plan is as large as an update's data. The cached plan
 * is valid while its file does not change. It is dropped when it is not used for a while.
 */

import { type Located, readLocated } from './located-plan.ts';
import { planStamp } from './plan-file.ts';

/** Usually longer than the time between two shards of one worker. A dropped plan is read again. */
const KEPT_MS = 60_000;

export class KnownPlan {
  readonly #keptMs: number;
  #held: Located | undefined;
  #letGo: NodeJS.Timeout | undefined;

  constructor(keptMs = KEPT_MS) {
    this.#keptMs = keptMs;
  }

  /** True if a plan is in memory. */
  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** The plan with this digest in `dir`. Errors: `PlanLost`, `UnknownPlanFormat`. */
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
