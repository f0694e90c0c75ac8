/** What an agent decides after a turn. It is part of the turn's record, made once; the workflow does what it says. */

export type Command =
  /** Run the turn's tool calls. */
  | { readonly do: 'act' }
  /** Run the tool calls before `finish`, then end. */
  | { readonly do: 'finish' }
  /** Answer the policy with this message of the user, then sample its next turn. */
  | { readonly do: 'tell'; readonly message: string }
  /** Give the message to the environment's `step`. */
  | { readonly do: 'step' }
  /** The message is the answer: end. */
  | { readonly do: 'answer' };
