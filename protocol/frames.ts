/**
 * The agents at work in a rollout: its own, and the sub-agents below it, each called by the one before. One works at a
 * time, the last one. Each has its own context, which a summary begins anew. Pure: workflows and activities use it.
 */

export interface Frame {
  /** `NAME@TURN`: the sub-agent's name, and the turn that called it. Empty: the rollout's own agent. */
  readonly name: string;
  /** Counts the agent's contexts from 1: each summary opens the next one. */
  readonly segment: number;
}

/** The outermost first. Never empty. */
export type Frames = readonly Frame[];

export const OWN_FRAMES: Frames = [{ name: '', segment: 1 }];

/** Where a turn belongs. */
export interface Place {
  /**
   * `NAME@TURN` of each sub-agent down to the one whose turn it is. Absent: it is a turn of the rollout's own agent.
   */
  readonly agentPath?: readonly string[];
  /** Absent: 1. */
  readonly segment?: number;
}

/** The place of the next turn. */
export function placeOf(frames: Frames): Place {
  const agentPath = frames.slice(1).map(({ name }) => name);
  const segment = frames.at(-1)?.segment ?? 1;
  return { ...(agentPath.length > 0 && { agentPath }), ...(segment > 1 && { segment }) };
}

/** The frames after sub-agent `name` is called in `turn`. */
export function called(frames: Frames, name: string, turn: number): Frames {
  return [...frames, { name: `${name}@${turn}`, segment: 1 }];
}

/** The frames after a summary. */
export function summarised(frames: Frames): Frames {
  return frames.map((frame, i) => (i === frames.length - 1 ? { ...frame, segment: frame.segment + 1 } : frame));
}

/** The turn that called the sub-agent `NAME@TURN`. */
export const callingTurn = (name: string): number => Number(name.slice(name.lastIndexOf('@') + 1));

/** The name of the sub-agent `NAME@TURN`. */
const nameOfAgent = (name: string): string => name.slice(0, name.lastIndexOf('@'));

export const sameAgent = (one: Place, other: Place): boolean =>
  (one.agentPath ?? []).join('/') === (other.agentPath ?? []).join('/');

/** True if both turns are in the same context. */
export const sameContext = (one: Place, other: Place): boolean =>
  sameAgent(one, other) && (one.segment ?? 1) === (other.segment ?? 1);

/** The longest summary that opens a segment. */
export const MOST_SUMMARY_CHARACTERS = 8000;

/** `shopper > buyer, segment 2`: the agent of a message or a turn. Empty for the rollout's own in its first segment. */
export function placeText({ agentPath = [], segment = 1 }: Place): string {
  const names = agentPath.map(nameOfAgent).join(' > ');
  return [names, segment > 1 ? `segment ${segment}` : ''].filter((part) => part !== '').join(', ');
}
