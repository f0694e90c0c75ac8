/**
 * Cached blocks that no sequence reads, in the order of their eviction: first those of the policy that was used longest
 * ago, and within a policy those that became idle longest ago. A block is evicted before the one that it follows.
 */

export class IdleBlocks {
  /** The policy that was used last is at the end; in each, the block that became idle last is at the end. */
  readonly #policies = new Map<string, Set<CachedBlock>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The caller adds the blocks that follow a block before the block itself. */
  add(block: CachedBlock): void {
    const blocks = this.#policies.get(block.policy) ?? new Set();
    this.#policies.set(block.policy, blocks.add(block));
    this.#size += 1;
  }

  delete(block: CachedBlock): void {
    if (this.#policies.get(block.policy)?.delete(block) === true) this.#size -= 1;
  }

  /** Marks the policy as used last: the blocks of all others are evicted first. */
  prefer(policy: string): void {
    const blocks = this.#policies.get(policy) ?? new Set();
    this.#policies.delete(policy);
    this.#policies.set(policy, blocks);
  }

  takeAll(policy: string): readonly CachedBlock[] {
    const blocks = [...(this.#policies.get(policy) ?? [])];
    this.#policies.delete(policy);
    this.#size -= blocks.length;
    return blocks;
  }

  takeOldest(): CachedBlock | undefined {
    for (const [policy, blocks] of this.#policies) {
      const [oldest] = blocks;
      if (oldest === undefined) {
        this.#policies.delete(policy);
        continue;
      }
      this.delete(oldest);
      return oldest;
    }
    return undefined;
  }
}

/** A block that is no longer written. It is found by the tokens in it and before it. */
export interface CachedBlock {
  readonly index: number;
  readonly policy: string;
  readonly parent: CachedBlock | undefined;
  /** As many as a block has positions. At a sequence's end there may be fewer; then no block follows. */
  readonly tokens: readonly number[];
  readonly children: Set<CachedBlock>;
  /** Number of running sequences that read it. */
  readers: number;
}
