/** An agent's decision after a turn. It is made once, as part of the turn's record, and the workflow follows it. */

export type Command =
  /** Run the turn's tool calls. */
  | { readonly do: 'act' }
  /** Run the tool calls before `finish`, then end. */
  | { readonly do: 'finish' }
  /** Send this message to the policy as the user, then sample its next turn. */
  | { readonly do: 'tell'; readonly message: string }
  /** Pass the message to the environment's `step`. */
  | { readonly do: 'step' }
  /** The message is the answer: end. */
  | { readonly do: 'answer' };
