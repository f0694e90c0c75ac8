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
