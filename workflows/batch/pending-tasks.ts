/**
 * Work of a batch that is under way: a history may end only when all that is tracked has settled, and the first error
 * that is no cancellation is the batch's.
 */

import { isCancellation } from '@temporalio/workflow';

export class PendingTasks {
  #tracked = 0;
  #failure: unknown;

  get isSettled(): boolean {
    return this.#tracked === 0;
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Must settle before this history ends. */
  track(work: Promise<void>): void {
    this.#tracked += 1;
    const settled = (error?: unknown) => {
      this.#tracked -= 1;
      if (error !== undefined) this.#failed(error);
    };
    work.then(() => settled(), settled);
  }

  /** Goes on for as long as this history does. */
  watch(work: Promise<void>): void {
    work.catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    if (!isCancellation(error)) this.#failure ??= error;
  }
}
