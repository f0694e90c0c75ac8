/** How a turn is sampled, and what sampling it took. */

export interface SamplingParameters {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** 0 is off. */
  readonly topK: number;
  /** Tokens less likely than this share of the likeliest are never drawn; 0, or left out, is off. */
  readonly minP?: number | undefined;
  /** Logits of tokens that are in the context are divided by it (multiplied where negative); 1, or left out, is off. */
  readonly repetitionPenalty?: number | undefined;
  /** Texts that end the answer, with the token that completes one; none when left out. */
  readonly stop?: readonly string[] | undefined;
  readonly maxTokens: number;
}

/** What a call took: it depends on what ran beside, and nothing that is computed depends on it. */
export interface GenerateCost {
  /** Until it was let in. */
  readonly queueSeconds: number;
  /** From then on. */
  readonly seconds: number;
  /** Tokens of the prompt that were found in the cache. */
  readonly cachedTokens: number;
  /** Sequences in the passes that it had part in, itself counted: the mean. */
  readonly batchSize: number;
}
