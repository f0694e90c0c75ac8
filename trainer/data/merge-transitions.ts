/** Transitions → training sequences: model calls whose past is exactly what was seen and said before share one. */

export interface Transition {
  /** All token ids that the call saw, its past included. */
  readonly observation: readonly number[];
  /** What it said. */
  readonly action: readonly number[];
  /** As long as `action`; shorter where a backend gave none, which reads as 0. */
  readonly logprobs: readonly number[];
  /** Of the policy that sampled the action. */
  readonly version: number;
}

/** A datum without its advantage; arrays as long as `tokens`, `mask` 1 and `logprobs` set on actions. */
export interface MergedTransitions {
  readonly tokens: number[];
  readonly mask: number[];
  readonly logprobs: number[];
}

function startsWith(sequence: readonly number[], prefix: readonly number[]): boolean {
  return prefix.length <= sequence.length && prefix.every((token, i) => token === sequence[i]);
}

function extend(merged: MergedTransitions, observed: readonly number[], { action, logprobs }: Transition): void {
  const add = (token: number, mask: number, logprob: number): void => {
    merged.tokens.push(token);
    merged.mask.push(mask);
    merged.logprobs.push(logprob);
  };
  // One by one: as arguments of a call, tokens of a long context do not fit the stack.
  for (const token of observed) add(token, 0, 0);
  for (const [i, token] of action.entries()) add(token, 1, logprobs[i] ?? 0);
}

/**
 * In order; where an observation does not begin with everything before it, a new sequence starts. A call without any
 * token gives none.
 */
export function mergeTransitions(transitions: readonly Transition[]): MergedTransitions[] {
  const merged: MergedTransitions[] = [];
  for (const transition of transitions) {
    if (transition.observation.length + transition.action.length === 0) continue;
    const last = merged.at(-1);
    if (last !== undefined && startsWith(transition.observation, last.tokens)) {
      extend(last, transition.observation.slice(last.tokens.length), transition);
    } else {
      const fresh: MergedTransitions = { tokens: [], mask: [], logprobs: [] };
      extend(fresh, transition.observation, transition);
      merged.push(fresh);
    }
  }
  return merged;
}
