/**
 * Why a run is paused, and from when on: the circuit breaker's settings and its word. Pure.
 */

import type { FailureClass } from './finish-reason.ts';
import { FAILURES } from './failure-policy.ts';

export interface BreakerSettings {
  /** Rollouts that fail alike, one after the other; 0: never. */
  readonly maxConsecutiveFailures: number;
  /** Or this share of the last four times as many: a success now and then hides nothing. */
  readonly share: number;
}

export const DEFAULT_BREAKER: BreakerSettings = { maxConsecutiveFailures: 8, share: 0.5 };

/** Why it opened. */
export interface Trip {
  readonly failure: FailureClass;
  /** Rollouts that failed so, of the last `of`. */
  readonly failed: number;
  readonly of: number;
  /** What the last of them said. */
  readonly message: string;
  /** What of the run, or of a rollout that is held, failed so after all its tries, for a person; absent: rollouts did. */
  readonly work?: string;
}

/** How a rollout ended: by a failure that says something of the machines, or otherwise. */
export type End = FailureClass | null;

/** Of a step none of whose rollouts was graded: why most of them were masked. */
export function ungradedTrip({
  step,
  masked,
}: {
  readonly step: number;
  readonly masked: Readonly<Record<string, number>>;
}): Trip {
  const counts = Object.entries(masked).toSorted(([, a], [, b]) => b - a);
  const [failure, failed] = counts.find((one): one is [FailureClass, number] => Object.hasOwn(FAILURES, one[0])) ?? [
    'internal',
    0,
  ];
  const of = counts.reduce((sum, [, count]) => sum + count, 0);
  return { failure, failed, of, message: `no rollout of step ${step} was graded, and its policy is the one before` };
}

/** For a person: what failed, and what to do. */
export function tripLine({ failure, failed, of, message, work }: Trip): string {
  if (work !== undefined && failure === 'cancelled') {
    return `paused: ${work} was ended by hand (${message}); \`longhaul resume\` begins it again, \`longhaul cancel\` ends the run`;
  }
  if (work !== undefined && failure === 'quarantined')
    return `paused: ${work} is quarantined (${message}); ${FAILURES[failure].remedy}; then \`longhaul resume\` does it again`;
  if (work !== undefined)
    return `paused: ${work} failed as ${failure} on all its tries (${message}); ${FAILURES[failure].remedy}; then \`longhaul resume\` does it again`;
  return `paused by the circuit breaker: ${failed} of the last ${of} rollouts failed as ${failure} (${message}); ${FAILURES[failure].remedy}; then \`longhaul resume\``;
}
