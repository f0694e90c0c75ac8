/** The critic that was written last stays in memory, so that the next update need not read it; at most one. */

import path from 'node:path';
import { criticFolder } from '../checkpoints/checkpoint.ts';
import type { NewCritic } from '../engine.ts';
import { stampOf } from '../checkpoints/policy-files.ts';
import { type Critic, disposeCritic, loadCritic } from './critic.ts';

export class ResidentCritic {
  #held: { readonly dir: string; readonly stamp: string; readonly critic: Critic } | undefined;

  /** The critic of the policy in `dir`; it is the caller's from now on, until `keep`. Errors: those of reading it. */
  async take(dir: string, begin: NewCritic): Promise<Critic> {
    const held = this.#held;
    this.#held = undefined;
    if (held?.dir === dir && (await stampOf(path.join(dir, criticFolder)).catch(() => '')) === held.stamp) return held.critic;
    if (held !== undefined) disposeCritic(held.critic);
    return loadCritic(dir, begin);
  }

  /** Nobody goes on with it: its memory is given back. */
  clear(): void {
    if (this.#held !== undefined) disposeCritic(this.#held.critic);
    this.#held = undefined;
  }

  /** It was written beside the policy in `dir` just now. */
  async keep(dir: string, critic: Critic): Promise<void> {
    const stamp = await stampOf(path.join(dir, criticFolder));
    this.clear();
    this.#held = { dir, stamp, critic };
  }
}
