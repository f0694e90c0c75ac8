/** Transitions → training sequences: a model call joins the one before if it saw exactly that one's tokens first. */

export interface Transition {
  /** All token ids that the call saw, earlier turns included. */
  readonly observation: readonly number[];
  /** The token ids that it sampled. */
  readonly action: readonly number[];
  /** As long as `action`, or shorter if a backend gave fewer; missing ones count as 0. */
  readonly logprobs: readonly number[];
  /** Of the policy that sampled the action. */
  readonly version: number;
  /** The temperature of the action's sampling and of its log-probabilities; left out: 1. */
  readonly temperature?: number;
}

/** A datum without its advantage. Arrays are as long as `tokens`; `mask` is 1 and `logprobs` is set on actions. */
export interface MergedTransitions {
  readonly tokens: number[];
  readonly mask: number[];
  readonly logprobs: number[];
  /** 1, except on actions that were sampled at another temperature; left out if all are 1. */
  readonly temperatures?: number[];
}

function startsWith(sequence: readonly number[], prefix: readonly number[]): boolean {
  return prefix.length <= sequence.length && prefix.every((token, i) => token === sequence[i]);
}

function extend(
  merged: Required<MergedTransitions>,
  observed: readonly number[],
  { action, logprobs, temperature = 1 }: Transition,
): void {
  const add = (token: number, mask: number, logprob: number, heat: number): void => {
    merged.tokens.push(token);
    merged.mask.push(mask);
    merged.logprobs.push(logprob);
    merged.temperatures.push(heat);
  };
  // One by one: the tokens of a long context do not fit the stack as arguments of one call.
  for (const token of observed) add(token, 0, 0, 1);
  for (const [i, token] of action.entries()) add(token, 1, logprobs[i] ?? 0, temperature);
}

const withoutOnes = ({ temperatures, ...merged }: Required<MergedTransitions>): MergedTransitions =>
  temperatures.every((temperature) => temperature === 1) ? merged : { ...merged, temperatures };

/**
 * Merges transitions in order. If an observation does not begin with all tokens of the sequence so far, a new sequence
 * starts. A call without any token is skipped.
 */
export function mergeTransitions(transitions: readonly Transition[]): MergedTransitions[] {
  const merged: Array<Required<MergedTransitions>> = [];
  for (const transition of transitions) {
    if (transition.observation.length + transition.action.length === 0) continue;
    const last = merged.at(-1);
    if (last !== undefined && startsWith(transition.observation, last.tokens)) {
      extend(last, transition.observation.slice(last.tokens.length), transition);
    } else {
      const fresh = { tokens: [], mask: [], logprobs: [], temperatures: [] };
      extend(fresh, transition.observation, transition);
      merged.push(fresh);
    }
  }
  return merged.map(withoutOnes);
}
