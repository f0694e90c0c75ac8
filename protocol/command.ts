/** An agent's decision after a turn. It is made once, as part of the turn's record, and the workflow follows it. */

import type { Message } from './message.ts';
import type { AgentChoice } from './stages.ts';

export type Command =
  /** Run the turn's tool calls. `message`: the policy receives it after their answers, as the user. */
  | { readonly do: 'act'; readonly message?: string }
  /** Run the tool calls before `finish`, then end. */
  | { readonly do: 'finish' }
  /** Run nothing. Send this message to the policy, as the answer to its calls or as the user, and sample again. */
  | { readonly do: 'reply'; readonly message: string }
  /** Pass the message to the environment's `step`. `message`: as in `act`. */
  | { readonly do: 'step'; readonly message?: string }
  /** The message is the answer: end. */
  | { readonly do: 'answer' }
  /** Open a new segment: the next prompt is the agent's opening and this summary, in place of the messages so far. */
  | {
      readonly do: 'summarise';
      readonly summary: string;
      /** What the task shows in that segment, in place of the opening and the summary. Absent: these. */
      readonly opening?: readonly Message[];
    }
  | Delegate;

/** Let a sub-agent work. It acts in the same sandboxes and budgets, and this agent receives what it answers. */
export interface Delegate {
  readonly do: 'delegate';
  /** Its name: letters, digits, dot, dash and underscore. */
  readonly name: string;
  readonly agent: AgentChoice;
  /** Names of tools that the task or one of its agents lists. */
  readonly tools: readonly string[];
  /** What the sub-agent reads first. */
  readonly messages: readonly Message[];
  /**
   * The call, from 0, whose observation is the sub-agent's answer. Calls before it run first; those after it do not
   * run. Absent: none runs, and the answer is a message of the user.
   */
  readonly call?: number;
}
