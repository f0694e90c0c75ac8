/**
 * The order in which ready rollouts enter agent-run: the order in which they would be ready if init had as many places
 * as agent-run. Far more inits than that run at once, so in the order of their ends the shortest ones would come first.
 * Which rollouts start last, and so how late a batch ends, would then be chance. Pure, except for its clock.
 */

interface Begun {
  readonly rollout: number;
  readonly at: number;
  /** How long init took, once it has ended. */
  took?: number;
  /** True if it no longer waits for agent-run. */
  gone?: boolean;
}

/**
 * Occupies the first free one of `width` places for `by`. `times`, sorted, are when places become free. Returns when
 * this one does.
 */
function occupy(times: number[], width: number, by: number): number {
  const time = (times.length < width ? 0 : (times.shift() ?? 0)) + by;
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  times.splice(low, 0, time);
  return time;
}

export class ReadyOrder {
  readonly #width: number;
  readonly #clock: () => number;
  /** When the occupied places of an init as narrow as agent-run would become free, earliest first. */
  readonly #places: number[] = [];
  /** In the order of their starts, from the first rollout whose init has not ended. */
  #open: Begun[] = [];
  readonly #begun = new Map<number, Begun>();
  /** When each rollout before those would be ready, if it still waits. */
  readonly #readyAt = new Map<number, number>();
  #ended = 0;
  #endedTook = 0;

  /** `width`: places in agent-run. `clock`: in any unit. */
  constructor(width: number, clock: () => number) {
    this.#width = width;
    this.#clock = clock;
  }

  began(rollout: number): void {
    const begun = { rollout, at: this.#clock() };
    this.#open.push(begun);
    this.#begun.set(rollout, begun);
  }

  /** Its init has ended, with or without success. */
  initEnded(rollout: number): void {
    const begun = this.#begun.get(rollout);
    if (begun === undefined) return;
    begun.took = this.#clock() - begun.at;
    this.#ended += 1;
    this.#endedTook += begun.took;
  }

  /** It no longer waits: it was admitted, or has ended. */
  left(rollout: number): void {
    this.#readyAt.delete(rollout);
    const begun = this.#begun.get(rollout);
    if (begun) begun.gone = true;
    this.#begun.delete(rollout);
  }

  /** Earliest first. Rollouts from an earlier history, whose times are unknown, come before all others. */
  sorted(waiting: readonly number[]): number[] {
    const keys = this.#keys();
    return waiting.toSorted((a, b) => (keys.get(a) ?? -1) - (keys.get(b) ?? -1));
  }

  #keys(): Map<number, number> {
    const unended = this.#open.findIndex(({ took }) => took === undefined);
    for (const { rollout, took = 0, gone } of this.#open.splice(0, unended < 0 ? this.#open.length : unended)) {
      const ready = occupy(this.#places, this.#width, took);
      if (gone !== true) this.#readyAt.set(rollout, ready);
    }
    // How long the others will take is unknown: the mean of the ended ones is assumed.
    const usual = this.#ended === 0 ? 0 : this.#endedTook / this.#ended;
    const places = [...this.#places];
    return new Map([
      ...this.#readyAt,
      ...this.#open.map(({ rollout, took = usual }) => [rollout, occupy(places, this.#width, took)] as const),
    ]);
  }
}
