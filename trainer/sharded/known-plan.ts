/**
 * The plan that a worker reads for each of its shards, in memory between them: it is as large as an update's data. It counts
 * for as long as its file is the one that was read, and is let go when nobody asks for a while.
 */

import { planStamp, readPlan } from './plan-file.ts';
import type { UpdatePlan } from './update-plan.ts';

/** The update's folder has no such plan: it was cleared away, or another update is asked for. */
export class PlanLost extends Error {
  override readonly name = 'PlanLost';
}

/** A plan with the place of its files. */
export interface Located {
  readonly dir: string;
  readonly sha256: string;
  /** Of its file when it was read. */
  readonly stamp: string | undefined;
  readonly plan: UpdatePlan;
}

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
    const stamp = await planStamp(dir);
    const held = this.#held;
    if (held?.dir === dir && held.sha256 === sha256 && held.stamp === stamp) return this.#keep(held);
    this.forget();
    const found = await readPlan(dir);
    if (found?.sha256 !== sha256) throw new PlanLost(`${dir} has ${found === undefined ? 'no plan' : 'another plan'} of an update: begin it again`);
    return this.#keep({ dir, sha256, stamp, plan: found.value });
  }

  /** Errors: `PlanLost` where it is there no longer. */
  async confirm({ dir, sha256, stamp }: Located): Promise<void> {
    if ((await planStamp(dir)) !== stamp) await this.of(dir, sha256);
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
