/** How a conversation is written for a policy: the form of tool calls, who explains the tools, and what is kept. */

/** Codecs that read calls from the policy's own text (`agents/codecs/`). */
export const TEXT_CODECS = ['hermes-json', 'function-xml', 'llama3-json', 'skyrl-text'] as const;

export type TextCodecName = (typeof TEXT_CODECS)[number];

/** `server`: the endpoint parses calls itself. */
export const CODECS = [...TEXT_CODECS, 'server'] as const;

export type CodecName = (typeof CODECS)[number];

export interface ConversationSettings {
  /** Absent: that of the policy's template; `server` for an endpoint that is asked in chat. */
  readonly codec?: CodecName;
  /**
   * A system message that lists the tools and the form of calls. `auto`: if the template neither lists tools nor writes
   * calls. `always`: if the template lists no tools. Absent: `auto`.
   */
  readonly preamble?: 'auto' | 'always' | 'never';
  /** Reasoning of earlier turns in later prompts. Absent: as the policy's template does it. */
  readonly reasoning?: 'keep' | 'remove';
}
