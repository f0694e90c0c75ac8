/**
 * Transitions → training sequences: a model call joins the sequence whose tokens it saw first, exactly. Agents of one
 * rollout take turns, so this need not be the last sequence.
 */

import type { GenerateRecord } from '../../protocol/records.ts';

export interface Transition {
  /** All token ids that the call saw, earlier turns included. */
  readonly observation: readonly number[];
  /** The token ids that it sampled. */
  readonly action: readonly number[];
  /** As long as `action`, or shorter if a backend gave fewer; missing ones count as 0. */
  readonly logprobs: readonly number[];
  /** Of the policy that sampled the action. */
  readonly version: number;
  /** The environment's reward for the action. Absent: none. */
  readonly reward?: number;
  /** The temperature of the action's sampling and of its log-probabilities; left out: 1. */
  readonly temperature?: number;
  /** Names the agent's context. Of equally long sequences a call continues that of its own context. */
  readonly context?: string;
}

/** A datum without its advantage. Arrays are as long as `tokens`; `mask` is 1 and `logprobs` is set on actions. */
export interface MergedTransitions {
  readonly tokens: number[];
  readonly mask: number[];
  readonly logprobs: number[];
  /** 1, except on actions that were sampled at another temperature; left out if all are 1. */
  readonly temperatures?: number[];
  /** Rewards of single actions, as [tokens of actions up to its end, reward]; left out if there are none. */
  readonly rewards?: Array<readonly [tokens: number, reward: number]>;
}

/**
 * The model calls of one attempt as transitions: all ids that the model saw, and the ids that it sampled. Each agent of
 * the rollout has a context of its own, which a summary begins anew; a program's call continues the turn that it names.
 * Empty calls are left out. `rewards`: by turn.
 */
export function transitionsOf(
  turns: readonly GenerateRecord[],
  rewards: ReadonlyMap<number, number> = new Map(),
): Transition[] {
  const transitions: Transition[] = [];
  const contexts = new Map<string, number[]>();
  const afterCalls: Array<readonly number[]> = [];
  for (const [i, turn] of turns.entries()) {
    const { appended, reset, sampled, logprobs, version, temperature = 1, agentPath = [], segment = 1, call } = turn;
    const context = [...agentPath, segment].join('/');
    const before = call ? afterCalls[call.follows - 1] : reset ? undefined : contexts.get(context);
    const observation = [...(before ?? []), ...appended];
    const reward = rewards.get(i + 1);
    const given = { version, temperature, context, ...(reward !== undefined && { reward }) };
    if (sampled.length > 0) transitions.push({ observation, action: sampled, logprobs, ...given });
    if (call) afterCalls[i] = [...observation, ...sampled];
    else contexts.set(context, [...observation, ...sampled]);
  }
  return transitions;
}

function startsWith(sequence: readonly number[], prefix: readonly number[]): boolean {
  return prefix.length <= sequence.length && prefix.every((token, i) => token === sequence[i]);
}

interface Open extends Required<MergedTransitions> {
  /** That of the last action. */
  context: string | undefined;
  /** Tokens of actions so far. */
  acted: number;
}

function extend(open: Open, observed: readonly number[], transition: Transition): void {
  const { action, logprobs, temperature = 1, reward } = transition;
  const add = (token: number, mask: number, logprob: number, heat: number): void => {
    open.tokens.push(token);
    open.mask.push(mask);
    open.logprobs.push(logprob);
    open.temperatures.push(heat);
  };
  // One by one: the tokens of a long context do not fit the stack as arguments of one call.
  for (const token of observed) add(token, 0, 0, 1);
  for (const [i, token] of action.entries()) add(token, 1, logprobs[i] ?? 0, temperature);
  open.acted += action.length;
  open.context = transition.context;
  if (reward !== undefined) open.rewards.push([open.acted, reward]);
}

const closed = ({ tokens, mask, logprobs, temperatures, rewards }: Open): MergedTransitions => ({
  tokens,
  mask,
  logprobs,
  ...(temperatures.some((temperature) => temperature !== 1) && { temperatures }),
  ...(rewards.length > 0 && { rewards }),
});

/**
 * Merges transitions in order. Of several sequences that an observation begins with, the longest is continued. Of
 * equally long ones it is the last, and one of the call's own context before those of others. If an observation begins
 * with none, a new sequence starts. A call without any token is skipped.
 */
export function mergeTransitions(transitions: readonly Transition[]): MergedTransitions[] {
  const merged: Open[] = [];
  for (const transition of transitions) {
    const { observation, action, context } = transition;
    if (observation.length + action.length === 0) continue;
    const seen = merged.filter(({ tokens }) => startsWith(observation, tokens)).toReversed();
    const isOwn = (one: Open): number => Number(one.context === context);
    let open = seen.toSorted((a, b) => b.tokens.length - a.tokens.length || isOwn(b) - isOwn(a))[0];
    if (open === undefined) {
      open = { tokens: [], mask: [], logprobs: [], temperatures: [], rewards: [], acted: 0, context };
      merged.push(open);
    }
    extend(open, observation.slice(open.tokens.length), transition);
  }
  return merged.map(closed);
}
