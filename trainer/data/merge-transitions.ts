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
  /** That the action was sampled at, and its log-probabilities are of; left out: 1. */
  readonly temperature?: number;
}

/** A datum without its advantage; arrays as long as `tokens`, `mask` 1 and `logprobs` set on actions. */
export interface MergedTransitions {
  readonly tokens: number[];
  readonly mask: number[];
  readonly logprobs: number[];
  /** 1 but on actions that were sampled at another temperature; left out where there are none. */
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
  // One by one: as arguments of a call, tokens of a long context do not fit the stack.
  for (const token of observed) add(token, 0, 0, 1);
  for (const [i, token] of action.entries()) add(token, 1, logprobs[i] ?? 0, temperature);
}

const withoutOnes = ({ temperatures, ...merged }: Required<MergedTransitions>): MergedTransitions =>
  temperatures.every((temperature) => temperature === 1) ? merged : { ...merged, temperatures };

/**
 * In order; where an observation does not begin with everything before it, a new sequence starts. A call without any
 * token gives none.
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
