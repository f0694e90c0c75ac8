/**
 * Who of those that are ready enters agent-run first: whoever would have been ready first if init had as many places as
 * agent-run. Far more begin at once than that, and by the ends of their inits alone the shortest init would go first:
 * which runs then begin last, and so how late a batch ends, would be chance. Pure, but for its clock.
 */

interface Begun {
  readonly rollout: number;
  readonly at: number;
  /** How long init took, once it has ended. */
  took?: number;
  /** It waits for agent-run no longer. */
  gone?: boolean;
}

/** Occupies the first of `width` places, which are free again at the sorted `times`; returns when it will be. */
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
  /** When the places of an init as narrow as agent-run would be free again, the first first; of those that were needed. */
  readonly #places: number[] = [];
  /** From the first whose init has not ended on, in the order of their begin. */
  #open: Begun[] = [];
  readonly #begun = new Map<number, Begun>();
  /** Of those before them that wait. */
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

  /** Its init is over, well or not. */
  initEnded(rollout: number): void {
    const begun = this.#begun.get(rollout);
    if (begun === undefined) return;
    begun.took = this.#clock() - begun.at;
    this.#ended += 1;
    this.#endedTook += begun.took;
  }

  /** It waits no longer: it was let in, or is over. */
  left(rollout: number): void {
    this.#readyAt.delete(rollout);
    const begun = this.#begun.get(rollout);
    if (begun) begun.gone = true;
    this.#begun.delete(rollout);
  }

  /** The first first; those of which nothing is known, since they began in an earlier history, before all others. */
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
    // How long the others will take is not known: as long as most.
    const usual = this.#ended === 0 ? 0 : this.#endedTook / this.#ended;
    const places = [...this.#places];
    return new Map([
      ...this.#readyAt,
      ...this.#open.map(({ rollout, took = usual }) => [rollout, occupy(places, this.#width, took)] as const),
    ]);
  }
}
