/** Keeps the last used critic in memory, at most one, so that the next update need not read it. */

import path from 'node:path';
import { criticFolder } from '../checkpoints/checkpoint.ts';
import { stampOf } from '../checkpoints/policy-files.ts';
import { type Critic, disposeCritic, loadCritic, loadMoments } from './critic.ts';
import type { CriticPlace } from './critic-files.ts';

/** A critic, and the stamp of the files that it equals. */
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

  /**
   * The critic of this place; with its moments if `withMoments`. The caller owns it until it calls `keep`. Errors:
   * those of reading it.
   */
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

  /** Frees the held critic's memory. */
  clear(): void {
    if (this.#held !== undefined) disposeCritic(this.#held.critic);
    this.#held = undefined;
  }

  /** Takes back a critic that did not change. */
  keep(placed: PlacedCritic): void {
    this.clear();
    this.#held = placed;
  }

  /** Takes over a critic that was just written to this place. It is freed if its files cannot be read. */
  async keepWritten(place: CriticPlace, critic: Critic): Promise<void> {
    const stamp = await stampAt(place).catch(() => undefined);
    if (stamp === undefined) disposeCritic(critic);
    else this.keep({ critic, place, stamp });
  }

  async #placed(place: CriticPlace): Promise<PlacedCritic> {
    const held = this.#held;
    this.#held = undefined;
    // Taken before reading, so that a critic written during the read has another stamp.
    const stamp = await stampAt(place).catch(() => '');
    if (held !== undefined && isSame(held.place, place) && held.stamp === stamp) return held;
    if (held !== undefined) disposeCritic(held.critic);
    return { critic: await loadCritic(place), place, stamp };
  }
}
