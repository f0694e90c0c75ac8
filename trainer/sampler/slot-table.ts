/**
 * Which tokens each slot of the cache holds. What a slot holds for a policy is a prefix of one token sequence; who
 * finds his prefix in it, whoever computed it, gets the same bits as from computing it again.
 */

export interface Slot {
  readonly index: number;
  /** The rollout that used it last. */
  cacheKey: string;
  /** The policy whose keys and values it holds. */
  policy: string;
  /** Grows while a sequence runs in it; the first `cached` are in the cache. */
  tokens: number[];
  cached: number;
  busy: boolean;
  lastUsed: number;
}

export interface Acquired {
  readonly slot: Slot;
  /** The donor's slot, when the first `slot.cached` tokens must be copied from there. */
  readonly copyFrom: Slot | undefined;
}

/** A copy costs two ops a layer, a token about as much as half a row of a pass: not worth it for a few tokens. */
const worthCopying = 16;

function commonPrefix(a: readonly number[], b: readonly number[], limit: number): number {
  const end = Math.min(limit, a.length, b.length);
  let n = 0;
  while (n < end && a[n] === b[n]) n++;
  return n;
}

export class SlotTable {
  readonly slots: readonly Slot[];
  #clock = 0;

  constructor(count: number) {
    this.slots = Array.from({ length: count }, (_, index) => ({
      index,
      cacheKey: '',
      policy: '',
      tokens: [],
      cached: 0,
      busy: false,
      lastUsed: 0,
    }));
  }

  /**
   * A slot for `tokens`, with the longest prefix that any slot has. `'soon'` when a running sequence is about to
   * compute a longer one, `'full'` when every slot is busy. `afresh`: with no prefix at all.
   */
  acquire(policy: string, cacheKey: string, tokens: readonly number[], afresh = false): Acquired | 'soon' | 'full' {
    const target = this.#target(cacheKey, policy);
    if (target === undefined) return 'full';
    if (afresh) return this.#take(target, { policy, cacheKey, tokens: [...tokens], cached: 0 }, undefined);
    // The last token is always computed: its logits are wanted.
    const prefix = (slot: Slot, known: number): number =>
      slot.policy === policy ? commonPrefix(slot.tokens, tokens, Math.min(known, tokens.length - 1)) : 0;
    const own = prefix(target, target.cached);
    let [donor, best, coming] = [target, own, 0];
    for (const slot of this.slots) {
      const found = prefix(slot, slot.cached);
      if (found >= best + (donor === target ? worthCopying : 1)) [donor, best] = [slot, found];
      if (slot.busy) coming = Math.max(coming, prefix(slot, slot.tokens.length));
    }
    if (coming >= best + worthCopying) return 'soon';
    const copyFrom = donor === target ? undefined : donor;
    return this.#take(target, { policy, cacheKey, tokens: [...tokens], cached: best }, copyFrom);
  }

  release(slot: Slot): void {
    slot.busy = false;
    slot.tokens.length = slot.cached;
  }

  /** What a failed pass may have left there is not trusted. */
  forget(slot: Slot): void {
    slot.cached = 0;
    this.release(slot);
  }

  #take(slot: Slot, holds: Pick<Slot, 'policy' | 'cacheKey' | 'tokens' | 'cached'>, copyFrom: Slot | undefined): Acquired {
    this.#clock += 1;
    Object.assign(slot, holds, { busy: true, lastUsed: this.#clock });
    return { slot, copyFrom };
  }

  /** The rollout's own slot, else the one that was used longest ago. */
  #target(cacheKey: string, policy: string): Slot | undefined {
    let oldest: Slot | undefined;
    for (const slot of this.slots) {
      if (slot.busy) continue;
      if (slot.cacheKey === cacheKey && slot.policy === policy) return slot;
      if (oldest === undefined || slot.lastUsed < oldest.lastUsed) oldest = slot;
    }
    return oldest;
  }
}
