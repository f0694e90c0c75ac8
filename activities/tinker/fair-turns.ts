/**
 * Turns at an engine, one at a time: tenants take turns, and so do the lanes of one tenant. A caller waits for at
 * most one turn of each other tenant, however much those have queued.
 */

type Start = () => void;

export class FairTurns {
  /** Tenants and their lanes, the next one first. A map keeps the order of insertion. */
  readonly #waiting = new Map<string, Map<string, Start[]>>();
  #isBusy = false;

  /** Runs `work` when it is its turn. Errors: those of `work`; the reason of `signal` while it waits. */
  async run<T>(tenant: string, lane: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#turn(tenant, lane);
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      this.#isBusy = false;
      this.#next();
    }
  }

  #turn(tenant: string, lane: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const lanes = this.#waiting.get(tenant) ?? new Map<string, Start[]>();
    this.#waiting.set(tenant, lanes);
    lanes.set(lane, [...(lanes.get(lane) ?? []), resolve]);
    this.#next();
    return promise;
  }

  #next(): void {
    if (this.#isBusy) return;
    const [first] = this.#waiting;
    if (first === undefined) return;
    const [tenant, lanes] = first;
    this.#waiting.delete(tenant);
    const [lane, starts] = [...lanes][0] ?? ['', []];
    lanes.delete(lane);
    const [start, ...rest] = starts;
    if (rest.length > 0) lanes.set(lane, rest);
    if (lanes.size > 0) this.#waiting.set(tenant, lanes);
    if (start === undefined) return this.#next();
    this.#isBusy = true;
    start();
  }
}
