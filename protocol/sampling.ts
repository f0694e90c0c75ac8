/** The parameters of sampling a turn, and its cost. */

export interface SamplingParameters {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** 0 is off. */
  readonly topK: number;
  /** Tokens less likely than this share of the likeliest token are never drawn. Default: 0, which is off. */
  readonly minP?: number | undefined;
  /** Logits of tokens in the context are divided by it, or multiplied if negative. Default: 1, which is off. */
  readonly repetitionPenalty?: number | undefined;
  /** Texts that end the answer, at the token that completes one. Default: none. */
  readonly stop?: readonly string[] | undefined;
  readonly maxTokens: number;
}

/** The cost of one model call. It depends on the other calls at that time; no result depends on it. */
export interface GenerateCost {
  /** From the request until it was admitted. */
  readonly queueSeconds: number;
  /** From admission to the end. */
  readonly seconds: number;
  /** Tokens of the prompt found in the cache. */
  readonly cachedTokens: number;
  /** Mean number of sequences in its passes, itself included. */
  readonly batchSize: number;
}
