/**
 * A batch's work in flight: a history may end only when all tracked work has settled, and the first error that is not a
 * cancellation is the batch's.
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

  /** Runs for as long as this history does. */
  watch(work: Promise<void>): void {
    work.catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    if (!isCancellation(error)) this.#failure ??= error;
  }
}
