/** Carries out a plan of kills, each by SIGKILL, and measures the recovery from each. */

import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, killProcess } from '../sandboxes/supervised/process-identity.ts';
import { executionsIn, type Kill } from './account.ts';
import type { Work } from './journal.ts';
import type { PlannedKill } from './plan-kills.ts';
import { type Recovered, recoveryFrom } from './recovery.ts';
import { processOf, type Stage } from './stage.ts';
import { roleOf, rolloutOf, type Victim, victimOf } from './victims.ts';

const LOOK_MS = 10;
/** How long to wait for the planned state, and for an update; after that the process is killed in any state. */
const STATE_WITHIN_MS = 15_000;
const UPDATE_WITHIN_MS = 60_000;
const VICTIM_WITHIN_MS = 120_000;

class NoVictim extends Error {
  override readonly name = 'NoVictim';
}

/** Waits until the target exists and is in the planned state. Errors: `NoVictim` if no target appears. */
async function awaitVictim(
  planned: PlannedKill,
  stage: Stage,
  hit: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Victim> {
  const begun = Date.now();
  const patience = planned.target === 'trainer' ? UPDATE_WITHIN_MS : STATE_WITHIN_MS;
  for (;;) {
    signal.throwIfAborted();
    const victim = await victimOf(planned, stage, await stage.journal.underWay(), hit);
    const waited = Date.now() - begun;
    if (victim && (victim.state === planned.state || waited > patience)) return victim;
    if (waited > VICTIM_WITHIN_MS)
      throw new NoVictim(`no ${planned.target} to kill appeared within ${VICTIM_WITHIN_MS / 1000} s`);
    await sleep(LOOK_MS);
  }
}

/** The work that the kill may have interrupted: that of the process, or all if it was the server or Docker's daemon. */
function cutOff({ target }: PlannedKill, { sandbox }: Victim, works: readonly Work[]): readonly Work[] {
  const role = roleOf(target);
  if (role !== undefined) return works.filter((work) => work.role === role);
  if (sandbox !== undefined) return works.filter((work) => work.sandbox === sandbox);
  return cutsEverything(target) ? works : [];
}

function cutsEverything(target: PlannedKill['target']): boolean {
  return target === 'temporal' || target === 'temporal-down' || target === 'dockerd';
}

/** Runs `body` and stops the supervisor for `ms`, so that what died is not restarted in this time. */
async function held<T>(ms: number, home: string, body: () => T): Promise<T> {
  const supervisor = ms > 0 ? processOf(home, 'supervisor') : undefined;
  if (!supervisor) return body();
  process.kill(supervisor.pid, 'SIGSTOP');
  try {
    const result = body();
    await sleep(ms);
    return result;
  } finally {
    process.kill(supervisor.pid, 'SIGCONT');
  }
}

/** A kill, and the keys of the work that it may have interrupted. */
export interface CarriedOut {
  readonly kill: Kill;
  readonly cut: readonly string[];
}

async function strike({ target, heldMs }: PlannedKill, victim: Victim, stage: Stage): Promise<void> {
  await held(heldMs, stage.home, () => {
    if (target === 'client') stage.client.kill();
    else for (const each of victim.processes) killProcess(each);
  });
  while (victim.processes.some((each) => isAlive(each))) await sleep(1);
}

async function carryOut(planned: PlannedKill, victim: Victim, stage: Stage): Promise<CarriedOut> {
  const { target, heldMs } = planned;
  const at = Date.now();
  const struck = strike(planned, victim, stage);
  const recovery = struck.then(() => recoveryFrom(planned, victim, stage));
  const open = cutsEverything(target)
    ? stage.journal.underWayUntil(recovery)
    : struck.then(() => stage.journal.underWay());
  const [back, works]: [Recovered | undefined, readonly Work[]] = await Promise.all([recovery, open]);
  const cut = cutOff(planned, victim, works);
  const kill: Kill = {
    process: target,
    pid: victim.processes[0]?.pid ?? 0,
    newPid: back?.newPid ?? null,
    state: victim.state,
    at: new Date(at).toISOString(),
    recoveredMs: back === undefined ? null : Math.max(0, back.at - at - heldMs),
    heldMs,
    ...(victim.sandbox === undefined ? {} : { what: victim.sandbox }),
    underWay: executionsIn(cut),
  };
  return { kill, cut: cut.map(({ key }) => key) };
}

function lineOf(kill: Kill, index: number, kills: number): string {
  const { process: name, pid, newPid, state, recoveredMs, heldMs, underWay } = kill;
  const down = heldMs > 0 ? ` after ${heldMs / 1000} s down` : '';
  const back =
    recoveredMs === null
      ? 'not back'
      : `back in ${(recoveredMs / 1000).toFixed(1)} s${down}${newPid === null ? '' : ` (pid ${newPid})`}`;
  const cut = `${underWay.modelCalls} model calls, ${underWay.toolCalls} tool calls in flight`;
  return `kill ${index + 1}/${kills}: ${state} ${name} (pid ${pid}), ${back}; ${cut}`;
}

/** Returns when every kill of the plan was made and its victim has recovered. Errors: that of `signal`. */
export async function disturb(plan: readonly PlannedKill[], stage: Stage, signal: AbortSignal): Promise<CarriedOut[]> {
  const healing: Array<Promise<CarriedOut>> = [];
  const hit = new Set<string>();
  for (const [index, planned] of plan.entries()) {
    if (!planned.together) await Promise.all(healing);
    await sleep(planned.pauseMs, undefined, { signal });
    const victim = await awaitVictim(planned, stage, hit, signal);
    if (victim.sandbox !== undefined) hit.add(rolloutOf(victim.sandbox));
    const carried = carryOut(planned, victim, stage).then((done) => {
      stage.note(lineOf(done.kill, index, plan.length));
      return done;
    });
    // Awaited above, where a failure is thrown.
    carried.catch(() => undefined);
    healing.push(carried);
  }
  return Promise.all(healing);
}
