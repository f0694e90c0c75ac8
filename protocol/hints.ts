/** Rules by which a policy is helped when it is stuck or near an end: their names, and what each needs. */

/** The order in which their texts are joined. */
export const HINT_RULES = [
  'parseError',
  'noCall',
  'unknownTool',
  'sameAction',
  'alternating',
  'monologue',
  'turnsLeft',
  'tokensLeft',
] as const;

export type HintRule = (typeof HINT_RULES)[number];

/** 0 switches a rule off. `noCall` has no switch: an agent's option `message` decides what such a message means. */
export interface HintSettings {
  /** A call that could not be read. False: the message counts as one without a call. */
  readonly parseError: boolean;
  /** A call of a tool that is not offered. The call itself gets an answer, too. */
  readonly unknownTool: boolean;
  /** The same calls in so many turns in a row, and again after as many more. At least 2. */
  readonly sameAction: number;
  /** So many pairs of two calls in turn (A B A B: 2), and again after as many more. At least 2. */
  readonly alternating: number;
  /** So many messages in a row without a call, and again after as many more. */
  readonly monologue: number;
  /** At most so many turns are left: after each turn. */
  readonly turnsLeft: number;
  /** At most so many tokens of context are left: after each turn. */
  readonly tokensLeft: number;
}

export const DEFAULT_HINTS: HintSettings = {
  parseError: true,
  unknownTool: false,
  sameAction: 0,
  alternating: 0,
  monologue: 0,
  turnsLeft: 0,
  tokensLeft: 0,
};

/** How often each rule has helped in these turns; rules that never did are left out. */
export function hintCounts(turns: ReadonlyArray<{ readonly hints?: readonly HintRule[] }>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const rule of turns.flatMap(({ hints = [] }) => hints)) counts[rule] = (counts[rule] ?? 0) + 1;
  return Object.fromEntries(HINT_RULES.flatMap((rule) => (counts[rule] ? [[rule, counts[rule]]] : [])));
}
