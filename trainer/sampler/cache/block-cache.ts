/**
 * Which block of the key-value cache holds what: a block is written by one running sequence alone, and once it is full
 * it may be read by all that begin with the same tokens under the same policy. Whoever was admitted gets every block
 * that it asks for, up to what it announced.
 */

import { type CachedBlock, IdleBlocks } from './idle-blocks.ts';

/** A running sequence's blocks. */
export interface Sequence {
  readonly policy: string;
  /** Grows while it runs; keys and values of the first `cached` are there. */
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
  /** A block whose first tokens are those of the sequence's last block: to be copied there, now. */
  readonly copy: { readonly from: number; readonly to: number } | undefined;
}

export interface BlockUse {
  readonly total: number;
  /** Held by running sequences. */
  readonly used: number;
  /** Kept for those that may come. */
  readonly idle: number;
  readonly free: number;
  /** Since the start: idle blocks that were given to others. */
  readonly evicted: number;
}

/** How many of the first of `a` are those of `b` from `from` on, before `limit`. */
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

  /** Blocks for so many positions. */
  blocksFor(positions: number): number {
    return Math.ceil(positions / this.#size);
  }

  /**
   * Takes in a sequence that begins with `tokens` and gets at most `longest` positions, with what is there of its
   * begin. `'soon'` when one of `before`, running sequences that it may wait for, is about to compute more of it, `'full'` when its blocks are not there
   * for certain. `afresh`: nothing is taken from the cache.
   */
  admit(
    policy: string,
    tokens: readonly number[],
    longest: number,
    afresh = false,
    before: ReadonlySet<Sequence> = this.#running,
  ): Admitted | 'soon' | 'full' {
    // The last token is always computed: its logits are wanted.
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

  /** Blocks for the first `positions`; within what was announced there is always one. */
  extend(sequence: Sequence, positions: number): void {
    while (sequence.blocks.length < this.blocksFor(positions)) {
      if (sequence.promised === 0) throw new RangeError(`${positions} positions are more than were announced`);
      sequence.blocks.push(this.#take());
      sequence.promised -= 1;
      this.#promised -= 1;
    }
  }

  /** The keys and values of the first `cached` tokens are there now: full blocks may be read by others. */
  computed(sequence: Sequence, cached: number): void {
    sequence.cached = cached;
    while ((sequence.shared.length + 1) * this.#size <= cached) this.#publish(sequence);
  }

  /** The sequence has ended; what it computed is kept until its blocks are needed. */
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

  /** The sequence has failed: what its last pass may have left is not trusted. */
  forget(sequence: Sequence): void {
    if (this.#end(sequence)) this.#drop(sequence);
  }

  /**
   * The policy is gone from memory, and no sequence of it runs: its blocks are free. The ones freed last are written first,
   * so the memory that the cache takes is that of the policies in use, not of all that ever were.
   */
  forgetPolicy(policy: string): void {
    for (const block of this.#idle.takeAll(policy)) this.#free.push(block.index);
    this.#roots.delete(policy);
  }

  #end(sequence: Sequence): boolean {
    this.#promised -= this.#running.has(sequence) ? sequence.promised : 0;
    return this.#running.delete(sequence);
  }

  /** Own blocks become free, and shared ones idle where nobody else reads them: the last first, which are evicted first. */
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

  /** Full blocks with the first tokens, of at most `limit`. */
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

  /** Positions of whole blocks that these have, or are about to compute. */
  #coming(policy: string, tokens: readonly number[], limit: number, before: ReadonlySet<Sequence>): number {
    let most = 0;
    for (const running of before) {
      if (running.policy === policy) most = Math.max(most, commonPrefix(running.tokens, tokens, 0, limit));
    }
    return most - (most % this.#size);
  }

  /** The longest begin of what comes next that any block has, to be copied; its last token is one of `limit`. */
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
    // Where this evicts the block to copy from, it is the one that is taken: what it holds is still there.
    this.extend(sequence, cached + best);
    sequence.cached += best;
    return { from, to: sequence.blocks.at(-1) ?? from };
  }

  /** The block after the shared ones is full: it becomes shared, or gives way to one that holds the same. */
  #publish(sequence: Sequence): void {
    const at = sequence.shared.length;
    const index = sequence.blocks[at];
    if (index === undefined) throw new RangeError('a block was computed that nobody has');
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

  /** A longer one takes the place of a tail, which nobody reads or follows. */
  #replace(tail: CachedBlock, siblings: Set<CachedBlock>): void {
    siblings.delete(tail);
    this.#idle.delete(tail);
    this.#free.push(tail.index);
  }

  #take(): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const block = this.#idle.takeOldest();
    if (block === undefined) throw new RangeError('no block is left');
    this.#evicted += 1;
    const siblings = block.parent?.children ?? this.#roots.get(block.policy);
    siblings?.delete(block);
    if (block.parent === undefined && siblings?.size === 0) this.#roots.delete(block.policy);
    return block.index;
  }
}
