/**
 * Which samples start: the tenant with the fewest sequences under way comes first. A tenant that has less than its
 * share starts although others fill the engine, so that nobody waits for the end of another's long samples.
 */

import type { WaitingSample } from '../../store/tinker/work.ts';

/** How far beyond `most` tenants with less than their share may go, all together. */
const OVERFLOW = 2;

/** `full`: tenants that start nothing before an end. `isCrowded`: nobody does. */
interface Choice {
  readonly chosen: readonly WaitingSample[];
  readonly full: readonly string[];
  readonly isCrowded: boolean;
}

export const sequencesOf = ({ operation }: WaitingSample): number =>
  operation.kind === 'sample' ? operation.sample.count : 1;

export class SampleShares {
  /** Sequences that are under way at once. */
  readonly #most: number;
  readonly #running = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  get total(): number {
    return [...this.#running.values()].reduce((sum, own) => sum + own, 0);
  }

  /** True if no tenant may start one more. */
  get isOverfull(): boolean {
    return this.total >= this.#most * OVERFLOW;
  }

  /** What one tenant alone may start. */
  get room(): number {
    return Math.max(0, this.#most - this.total);
  }

  /** While there is no room: tenants that have their share. The samples of others may start. */
  get served(): readonly string[] {
    if (this.room > 0) return [];
    const share = this.#share(this.#running.size);
    return [...this.#running].filter(([, own]) => own >= share).map(([tenant]) => tenant);
  }

  started(sample: WaitingSample): void {
    const { tenant } = sample;
    this.#running.set(tenant, (this.#running.get(tenant) ?? 0) + sequencesOf(sample));
  }

  ended(sample: WaitingSample): void {
    const { tenant } = sample;
    const left = (this.#running.get(tenant) ?? 0) - sequencesOf(sample);
    if (left > 0) this.#running.set(tenant, left);
    else this.#running.delete(tenant);
  }

  #share(tenants: number): number {
    return Math.max(1, Math.floor(this.#most / Math.max(1, tenants)));
  }

  /**
   * Those of `found` that start now; one in any case if nothing is under way. A tenant that has its share waits for an
   * end, and others do not wait with it. What a tenant without samples under way cannot start holds all behind it:
   * otherwise a large one would wait for ever. `found`: each tenant's in its order.
   */
  choose(found: readonly WaitingSample[]): Choice {
    const own = new Map(this.#running);
    const queues = Map.groupBy(found, ({ tenant }) => tenant);
    const share = this.#share(new Set([...own.keys(), ...queues.keys()]).size);
    const chosen: WaitingSample[] = [];
    const full: string[] = [];
    let { total } = this;
    for (;;) {
      const [next] = [...queues].toSorted(([a], [b]) => (own.get(a) ?? 0) - (own.get(b) ?? 0));
      if (next === undefined) return { chosen, full, isCrowded: false };
      const [tenant, [sample, ...rest]] = next;
      if (sample === undefined) return { chosen, full, isCrowded: false };
      const count = sequencesOf(sample);
      const has = (own.get(tenant) ?? 0) + count;
      // The first one of a tenant may be larger than its share.
      const isWithinShare = (has <= share || has === count) && total + count <= this.#most * OVERFLOW;
      if (total > 0 && total + count > this.#most && !isWithinShare) {
        if (has === count) return { chosen, full, isCrowded: true };
        full.push(tenant);
        queues.delete(tenant);
        continue;
      }
      chosen.push(sample);
      own.set(tenant, has);
      total += count;
      if (rest.length > 0) queues.set(tenant, rest);
      else queues.delete(tenant);
    }
  }
}
