/** The critic that was used last stays in memory, so that who goes on with it need not read it; at most one. */

import path from 'node:path';
import { criticFolder } from '../checkpoints/checkpoint.ts';
import { stampOf } from '../checkpoints/policy-files.ts';
import { type Critic, disposeCritic, loadCritic, loadMoments } from './critic.ts';
import type { CriticPlace } from './critic-files.ts';

/** A critic, and what the files were like that it equals. */
export interface PlacedCritic {
  readonly critic: Critic;
  readonly place: CriticPlace;
  readonly stamp: string;
}

async function stampAt(place: CriticPlace): Promise<string> {
  if ('dir' in place) return stampOf(place.dir);
  return stampOf(path.join(place.beside, criticFolder)).catch(() => stampOf(place.begin.base));
}

const isSame = (a: CriticPlace, b: CriticPlace): boolean => JSON.stringify(a) === JSON.stringify(b);

export class ResidentCritic {
  #held: PlacedCritic | undefined;

  /** The critic of this place, its moments `withMoments`; it is the caller's from now on, until `keep`. Errors: those of reading it. */
  async take(place: CriticPlace, withMoments: boolean): Promise<PlacedCritic> {
    const placed = await this.#placed(place);
    try {
      if (withMoments && placed.critic.optimizer === undefined) await loadMoments(placed.critic, place);
      return placed;
    } catch (error) {
      disposeCritic(placed.critic);
      throw error;
    }
  }

  /** Nobody goes on with it: its memory is given back. */
  clear(): void {
    if (this.#held !== undefined) disposeCritic(this.#held.critic);
    this.#held = undefined;
  }

  /** It is as it was taken. */
  keep(placed: PlacedCritic): void {
    this.clear();
    this.#held = placed;
  }

  /** It was written to this place just now; one whose files cannot be looked at is given up. */
  async keepWritten(place: CriticPlace, critic: Critic): Promise<void> {
    const stamp = await stampAt(place).catch(() => undefined);
    if (stamp === undefined) disposeCritic(critic);
    else this.keep({ critic, place, stamp });
  }

  async #placed(place: CriticPlace): Promise<PlacedCritic> {
    const held = this.#held;
    this.#held = undefined;
    // Before reading: what is written meanwhile is another critic.
    const stamp = await stampAt(place).catch(() => '');
    if (held !== undefined && isSame(held.place, place) && held.stamp === stamp) return held;
    if (held !== undefined) disposeCritic(held.critic);
    return { critic: await loadCritic(place), place, stamp };
  }
}
