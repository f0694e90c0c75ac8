/**
 * Which process is killed when: a pure function of the seed. Every target comes once before any comes again, and each
 * is hit alternately idle and busy.
 */

import { createRandom } from '../tasks/random.ts';

export const TARGETS = [
  'orchestrator',
  'init',
  'agent-run',
  'reward',
  'gpu',
  /** The GPU worker while it makes an update. */
  'trainer',
  'temporal',
  /** The server, which is not restarted for 30 s. */
  'temporal-down',
  'supervisor',
  /** Every process of one sandbox, inside and outside. */
  'sandbox',
  /** The first process of one sandbox. */
  'sandbox-supervisor',
  /** The program that waits for the run. */
  'client',
  /** Docker's daemon, if the command has started one. */
  'dockerd',
] as const;
export type Target = (typeof TARGETS)[number];

export type Activity = 'idle' | 'busy';

export interface PlannedKill {
  readonly target: Target;
  /** The state in which it should be killed; if it is not in it in time, it is killed in any state. */
  readonly state: Activity;
  /** Delay after the stack has recovered, in milliseconds. */
  readonly pauseMs: number;
  /** True if it does not wait for the recovery from the kill before. */
  readonly together: boolean;
  /** How long a restart is prevented, in milliseconds. */
  readonly heldMs: number;
  /** Selects one of several sandboxes; in [0, 1). */
  readonly choice: number;
}

const HELD_MS = 30_000;
const LONGEST_PAUSE_MS = 1500;
/** Targets that are killed alone: with a second kill at the same time, the recovery would depend on both. */
const ALONE: ReadonlySet<Target> = new Set(['temporal', 'temporal-down', 'dockerd']);

/** What a stack may lack. */
export interface Present {
  /** Docker's daemon, started by the command. */
  readonly dockerd: boolean;
  readonly sandboxes: boolean;
}

const isThere = (target: Target, { dockerd, sandboxes }: Present): boolean =>
  target === 'dockerd' ? dockerd : sandboxes || !target.startsWith('sandbox');

export function planKills(
  seed: number,
  kills: number,
  present: Present = { dockerd: false, sandboxes: true },
): PlannedKill[] {
  const random = createRandom(`chaos ${seed}`);
  const targets = TARGETS.filter((target) => isThere(target, present));
  const first = new Map<Target, boolean>(targets.map((target) => [target, random.chance(0.5)]));
  const plan: PlannedKill[] = [];
  for (let round = 0; plan.length < kills; round += 1) {
    for (const target of random.shuffle(targets).slice(0, kills - plan.length)) {
      const before = plan.at(-1);
      const busy = target === 'trainer' || (first.get(target) === true) === (round % 2 === 0);
      const near = before !== undefined && !ALONE.has(before.target) && !ALONE.has(target);
      // A supervisor is busy while it restarts something.
      const together = near && (target === 'supervisor' ? busy : random.chance(0.2));
      const pauseMs = random.integer(0, together ? 300 : LONGEST_PAUSE_MS);
      const heldMs = target === 'temporal-down' ? HELD_MS : 0;
      plan.push({
        target,
        state: busy ? 'busy' : 'idle',
        pauseMs,
        together,
        heldMs,
        choice: random.integer(0, 9999) / 10_000,
      });
    }
  }
  return plan;
}
