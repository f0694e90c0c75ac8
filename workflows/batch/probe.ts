/**
 * Checks whether rollouts of earlier histories still run: one that was terminated reports nothing, and Temporal reports
 * its end only to the history that started it. A round adds two or more events for each rollout, so a history that ends
 * in the middle of a round leaves the rest to the next history. Pure.
 */

import { CHUNK } from './history-budget.ts';

/** The current state of the batch. */
export interface ProbeHost {
  /** Rollouts that were started in earlier histories and have not ended. */
  readonly living: () => readonly number[];
  /** True if no rollout needs a check in this history any more. */
  readonly isDone: () => boolean;
  /** Waits until it is time to check all of them again. Returns true if no further round is needed. */
  readonly nextRound: () => Promise<boolean>;
  /** Checks all of `members`. A history that ends waits for this. */
  readonly ask: (members: readonly number[]) => Promise<void>;
}

export class Probe {
  readonly #host: ProbeHost;
  #unasked: readonly number[];
  #resting = false;

  /** `unasked`: rollouts that are left of a round from an earlier history. */
  constructor(host: ProbeHost, unasked: readonly number[] = []) {
    this.#host = host;
    this.#unasked = unasked;
  }

  /** Rollouts that the current round has not checked yet. */
  get unasked(): readonly number[] {
    return this.#unasked;
  }

  /** Starts no further checks. */
  rest(): void {
    this.#resting = true;
  }

  async run(): Promise<void> {
    const { living, isDone, nextRound, ask } = this.#host;
    const open = new Set(living());
    this.#unasked = this.#unasked.filter((index) => open.has(index));
    while (!isDone() && !this.#resting) {
      if (this.#unasked.length === 0) {
        if (await nextRound()) return;
        this.#unasked = living();
      }
      while (this.#unasked.length > 0 && !this.#resting) {
        const chunk = this.#unasked.slice(0, CHUNK);
        this.#unasked = this.#unasked.slice(CHUNK);
        await ask(chunk);
      }
    }
  }
}
