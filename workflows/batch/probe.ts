/**
 * Asks rollouts of earlier histories whether they live: one that was terminated says nothing, and Temporal tells its end
 * only to the history that began it. A round costs two events and more for each of them, so that a history that ends in
 * the middle of one hands the rest of it on. Pure.
 */

import { CHUNK } from './history-budget.ts';

/** The batch, as it is at the moment. */
export interface ProbeHost {
  /** Begun in earlier histories and not ended. */
  readonly living: () => readonly number[];
  /** Nobody needs to be asked in this history any more. */
  readonly isDone: () => boolean;
  /** Waits until it is time to ask them all again; true where that has become needless. */
  readonly nextRound: () => Promise<boolean>;
  /** Asks them all; a history that ends waits for that. */
  readonly ask: (members: readonly number[]) => Promise<void>;
}

export class Probe {
  readonly #host: ProbeHost;
  #unasked: readonly number[];
  #resting = false;

  /** `unasked`: with whom the round goes on that an earlier history began. */
  constructor(host: ProbeHost, unasked: readonly number[] = []) {
    this.#host = host;
    this.#unasked = unasked;
  }

  /** Whom the round under way has not come to. */
  get unasked(): readonly number[] {
    return this.#unasked;
  }

  /** Asks no more than it is asking now. */
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
