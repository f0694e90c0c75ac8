/** What a new adapter is like. */

/** Projections of a layer that an adapter may stand beside, by Hugging Face's names. */
export const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;

export interface LoraSettings {
  readonly rank: number;
  /** A product of the two matrices counts alpha / rank. */
  readonly alpha: number;
  readonly targetModules: ReadonlyArray<(typeof LORA_TARGETS)[number]>;
}
