/**
 * What each block of the key-value cache holds. Only one running sequence writes a block. Once the block is full, every
 * sequence of the same policy that begins with the same tokens may read it. An admitted sequence gets every block that
 * it asks for, up to the length that it announced.
 */

import { type CachedBlock, IdleBlocks } from './idle-blocks.ts';

/** A running sequence's blocks. */
export interface Sequence {
  readonly policy: string;
  /** Grows while the sequence runs. The cache holds the keys and values of the first `cached` tokens. */
  readonly tokens: number[];
  cached: number;
  /** In the order of positions; the shared ones first. */
  readonly blocks: number[];
  readonly shared: CachedBlock[];
  /** Blocks that it may still ask for. */
  promised: number;
}

export interface Admitted {
  readonly sequence: Sequence;
  /** The caller copies block `from`, which begins with the same tokens, to the sequence's last block `to` at once. */
  readonly copy: { readonly from: number; readonly to: number } | undefined;
}

export interface BlockUse {
  readonly total: number;
  /** Held by running sequences. */
  readonly used: number;
  /** Kept for later sequences. */
  readonly idle: number;
  readonly free: number;
  /** Idle blocks that were given to other sequences since the start. */
  readonly evicted: number;
}

/** Number of first tokens of `a` that equal those of `b` from index `from` on, before `limit`. */
function commonPrefix(a: readonly number[], b: readonly number[], from: number, limit: number): number {
  let n = 0;
  while (from + n < limit && n < a.length && a[n] === b[from + n]) n++;
  return n;
}

const beginsWith = (tokens: readonly number[], begin: readonly number[]): boolean =>
  begin.every((token, i) => token === tokens[i]);

export class BlockCache {
  readonly #total: number;
  readonly #size: number;
  readonly #free: number[];
  readonly #idle = new IdleBlocks();
  readonly #roots = new Map<string, Set<CachedBlock>>();
  readonly #running = new Set<Sequence>();
  #promised = 0;
  #evicted = 0;

  /** `size`: positions of a block. */
  constructor(total: number, size: number) {
    this.#total = total;
    this.#size = size;
    this.#free = Array.from({ length: total }, (_, i) => total - 1 - i);
  }

  use(): BlockUse {
    const [free, idle] = [this.#free.length, this.#idle.size];
    return { total: this.#total, used: this.#total - free - idle, idle, free, evicted: this.#evicted };
  }

  /** Number of blocks that hold so many positions. */
  blocksFor(positions: number): number {
    return Math.ceil(positions / this.#size);
  }

  /**
   * Admits a sequence that begins with `tokens` and grows to at most `longest` positions. It reads what is cached of
   * its prefix. Returns `'soon'` if one of `before`, running sequences that it may wait for, will compute more of that
   * prefix, and `'full'` if it might not get all of its blocks. `afresh`: it reads nothing from the cache.
   */
  admit(
    policy: string,
    tokens: readonly number[],
    longest: number,
    afresh = false,
    before: ReadonlySet<Sequence> = this.#running,
  ): Admitted | 'soon' | 'full' {
    // The last token is always computed: its logits are needed.
    const limit = tokens.length - 1;
    const shared = afresh ? [] : this.#find(policy, tokens, limit);
    const found = shared.length * this.#size;
    if (!afresh && this.#coming(policy, tokens, limit, before) > found) return 'soon';
    const needed = this.blocksFor(longest) - shared.length;
    const woken = shared.filter(({ readers }) => readers === 0).length;
    if (this.#free.length + this.#idle.size - woken - this.#promised < needed) return 'full';
    const sequence: Sequence = { policy, tokens: [...tokens], cached: found, blocks: [], shared: [], promised: needed };
    for (const block of shared) this.#read(sequence, block);
    this.#promised += needed;
    this.#running.add(sequence);
    this.#idle.prefer(policy);
    return { sequence, copy: afresh ? undefined : this.#takeTail(sequence, limit) };
  }

  /** Gives the sequence blocks for its first `positions`. Up to the announced length, a block is always available. */
  extend(sequence: Sequence, positions: number): void {
    while (sequence.blocks.length < this.blocksFor(positions)) {
      if (sequence.promised === 0) throw new RangeError(`${positions} positions exceed the announced length`);
      sequence.blocks.push(this.#take());
      sequence.promised -= 1;
      this.#promised -= 1;
    }
  }

  /** Records that the keys and values of the first `cached` tokens are computed: others may read the full blocks. */
  computed(sequence: Sequence, cached: number): void {
    sequence.cached = cached;
    while ((sequence.shared.length + 1) * this.#size <= cached) this.#publish(sequence);
  }

  /** Ends the sequence. What it computed is kept until its blocks are needed. */
  release(sequence: Sequence): void {
    if (!this.#end(sequence)) return;
    const tail = sequence.cached - sequence.shared.length * this.#size;
    const index = sequence.blocks[sequence.shared.length];
    if (tail > 0 && index !== undefined && !this.#holds(sequence, tail)) {
      sequence.blocks.splice(sequence.shared.length, 1);
      this.#idle.add(this.#insert(sequence, index, sequence.cached));
    }
    this.#drop(sequence);
  }

  /** Ends a failed sequence. What its last pass may have written is not kept. */
  forget(sequence: Sequence): void {
    if (this.#end(sequence)) this.#drop(sequence);
  }

  /**
   * Frees the blocks of a policy that is unloaded and has no running sequence. Blocks that were freed last are written
   * first, so the cache takes memory for the policies in use, not for all that were ever loaded.
   */
  forgetPolicy(policy: string): void {
    for (const block of this.#idle.takeAll(policy)) this.#free.push(block.index);
    this.#roots.delete(policy);
  }

  #end(sequence: Sequence): boolean {
    this.#promised -= this.#running.has(sequence) ? sequence.promised : 0;
    return this.#running.delete(sequence);
  }

  /** Own blocks become free. Shared blocks that nobody else reads become idle, the last first: it is evicted first. */
  #drop(sequence: Sequence): void {
    this.#free.push(...sequence.blocks.splice(sequence.shared.length));
    for (const block of sequence.shared.splice(0).toReversed()) {
      block.readers -= 1;
      if (block.readers === 0) this.#idle.add(block);
    }
  }

  #following(policy: string, parent: CachedBlock | undefined): ReadonlySet<CachedBlock> {
    return parent?.children ?? this.#roots.get(policy) ?? new Set();
  }

  /** Full blocks that hold the first tokens, up to `limit`. */
  #find(policy: string, tokens: readonly number[], limit: number): CachedBlock[] {
    const found: CachedBlock[] = [];
    for (let from = 0; from + this.#size <= limit; from += this.#size) {
      const next = [...this.#following(policy, found.at(-1))].find(
        (block) => commonPrefix(block.tokens, tokens, from, limit) === this.#size,
      );
      if (next === undefined) break;
      found.push(next);
    }
    return found;
  }

  /** Positions, in whole blocks, that one of `before` has in common with `tokens` and has computed or will compute. */
  #coming(policy: string, tokens: readonly number[], limit: number, before: ReadonlySet<Sequence>): number {
    let most = 0;
    for (const running of before) {
      if (running.policy === policy) most = Math.max(most, commonPrefix(running.tokens, tokens, 0, limit));
    }
    return most - (most % this.#size);
  }

  /** Chooses the block that begins with the most of the next tokens, before `limit`; the caller copies it. */
  #takeTail(sequence: Sequence, limit: number): Admitted['copy'] {
    let [from, best]: [number | undefined, number] = [undefined, 0];
    const consider = (index: number | undefined, common: number): void => {
      if (common > best) [from, best] = [index, common];
    };
    const { cached, shared } = sequence;
    for (const block of this.#following(sequence.policy, shared.at(-1)))
      consider(block.index, commonPrefix(block.tokens, sequence.tokens, cached, limit));
    for (const running of this.#running) {
      if (running === sequence || running.policy !== sequence.policy || running.cached <= cached) continue;
      consider(
        running.blocks[shared.length],
        commonPrefix(running.tokens, sequence.tokens, 0, Math.min(limit, running.cached)) - cached,
      );
    }
    if (from === undefined) return undefined;
    // If this evicts the block to copy from, the sequence gets that block itself, with its contents.
    this.extend(sequence, cached + best);
    sequence.cached += best;
    return { from, to: sequence.blocks.at(-1) ?? from };
  }

  /** The block after the shared ones is full. It becomes shared, or a shared block with the same tokens replaces it. */
  #publish(sequence: Sequence): void {
    const at = sequence.shared.length;
    const index = sequence.blocks[at];
    if (index === undefined) throw new RangeError('the sequence has no block for the computed positions');
    const end = (at + 1) * this.#size;
    const twin = [...this.#following(sequence.policy, sequence.shared.at(-1))].find(
      (block) => commonPrefix(block.tokens, sequence.tokens, at * this.#size, end) === this.#size,
    );
    if (twin !== undefined) this.#free.push(index);
    this.#read(sequence, twin ?? this.#insert(sequence, index, end));
  }

  #read(sequence: Sequence, block: CachedBlock): void {
    this.#idle.delete(block);
    block.readers += 1;
    sequence.blocks[sequence.shared.length] = block.index;
    sequence.shared.push(block);
  }

  #holds(sequence: Sequence, tail: number): boolean {
    return [...this.#following(sequence.policy, sequence.shared.at(-1))].some(
      (block) => commonPrefix(block.tokens, sequence.tokens, sequence.cached - tail, sequence.cached) === tail,
    );
  }

  #insert(sequence: Sequence, index: number, end: number): CachedBlock {
    const { policy } = sequence;
    const parent = sequence.shared.at(-1);
    const tokens = sequence.tokens.slice(sequence.shared.length * this.#size, end);
    const block: CachedBlock = { index, policy, parent, tokens, children: new Set(), readers: 0 };
    const siblings = parent?.children ?? this.#roots.get(policy) ?? new Set();
    for (const other of siblings)
      if (other.tokens.length < tokens.length && beginsWith(tokens, other.tokens)) this.#replace(other, siblings);
    siblings.add(block);
    if (parent === undefined) this.#roots.set(policy, siblings);
    return block;
  }

  /** Frees a tail that a longer block supersedes. No sequence reads it, and no block follows it. */
  #replace(tail: CachedBlock, siblings: Set<CachedBlock>): void {
    siblings.delete(tail);
    this.#idle.delete(tail);
    this.#free.push(tail.index);
  }

  #take(): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const block = this.#idle.takeOldest();
    if (block === undefined) throw new RangeError('no block is free');
    this.#evicted += 1;
    const siblings = block.parent?.children ?? this.#roots.get(block.policy);
    siblings?.delete(block);
    if (block.parent === undefined && siblings?.size === 0) this.#roots.delete(block.policy);
    return block.index;
  }
}
