/** The circuit breaker: the settings that decide when a run is paused, and the reason it reports. Pure. */

import type { FailureClass } from './finish-reason.ts';
import { FAILURES } from './failure-policy.ts';

export interface BreakerSettings {
  /** The run is paused after so many rollouts in a row fail with the same class. 0: never. */
  readonly maxConsecutiveFailures: number;
  /** Or if this share of the last four times as many does, so that occasional successes do not hide an outage. */
  readonly share: number;
}

export const DEFAULT_BREAKER: BreakerSettings = { maxConsecutiveFailures: 8, share: 0.5 };

/** Why the breaker opened. */
export interface Trip {
  readonly failure: FailureClass;
  /** Rollouts that failed with this class, among the last `of`. */
  readonly failed: number;
  readonly of: number;
  /** The message of the last of them. */
  readonly message: string;
  /** The work of the run, or of a held rollout, that failed on all its tries, in words. Absent: rollouts failed. */
  readonly work?: string;
}

/** How a rollout ended: the class of a failure that `breaks` the circuit; `null` for any other end. */
export type End = FailureClass | null;

/** The trip of a step with no graded rollout: its failure is the one that masked most rollouts. */
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
  return { failure, failed, of, message: `no rollout of step ${step} was graded, so the policy is unchanged` };
}

/** `text` with `name` in the place of RUN in its commands: a remedy is written for any run. */
const remediesOf = (text: string, name: string): string =>
  text.replaceAll(/(npx longhaul \w+) RUN\b/g, (_all, verb: string) => `${verb} ${name}`);

/** A sentence for a person: what failed, and what to do. `name`: of the run, the eval or the rollout. */
export const tripLine = (trip: Trip, name = 'RUN'): string => remediesOf(lineOf(trip), name);

function lineOf({ failure, failed, of, message, work }: Trip): string {
  if (work !== undefined && failure === 'cancelled') {
    return (
      `paused: ${work} was ended by hand (${message}); \`npx longhaul resume RUN\` starts it again, ` +
      `\`npx longhaul cancel RUN\` ends the run`
    );
  }
  if (work !== undefined && failure === 'quarantined')
    return (
      `paused: ${work} is quarantined (${message}); ${FAILURES[failure].remedy}; ` +
      `then \`npx longhaul resume RUN\` retries it`
    );
  // Its message names the budget, and how to raise it.
  if (failure === 'budget-spent') return `paused: ${message}`;
  if (work !== undefined)
    return (
      `paused: ${work} failed as ${failure} on all its tries (${message}); ${FAILURES[failure].remedy}; ` +
      `then \`npx longhaul resume RUN\` retries it`
    );
  return (
    `paused by the circuit breaker: ${failed} of the last ${of} rollouts failed as ${failure} (${message}); ` +
    `${FAILURES[failure].remedy}; then \`npx longhaul resume RUN\``
  );
}
