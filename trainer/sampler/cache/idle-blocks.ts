/**
 * Cached blocks that nobody reads, in the order in which they are given up: those of the policy that was used longest
 * ago first, and of one policy those that were left longest ago. What follows a block always goes before it.
 */

export class IdleBlocks {
  /** The policy used last at the end; in each the block left last at the end. */
  readonly #policies = new Map<string, Set<CachedBlock>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** What follows a block is to be added before it. */
  add(block: CachedBlock): void {
    const blocks = this.#policies.get(block.policy) ?? new Set();
    this.#policies.set(block.policy, blocks.add(block));
    this.#size += 1;
  }

  delete(block: CachedBlock): void {
    if (this.#policies.get(block.policy)?.delete(block) === true) this.#size -= 1;
  }

  /** The policy is used now: all others' blocks go first. */
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

/** A block that is not written any more, found by the tokens in it and before it. */
export interface CachedBlock {
  readonly index: number;
  readonly policy: string;
  readonly parent: CachedBlock | undefined;
  /** As many as a block has positions, or fewer at a sequence's end; nothing follows those. */
  readonly tokens: readonly number[];
  readonly children: Set<CachedBlock>;
  /** Running sequences that read it. */
  readers: number;
}
