/** Carries out a plan of kills, each by SIGKILL, and measures how long each takes to heal. */

import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, killProcess } from '../../sandboxes/supervised/process-identity.ts';
import { executionsIn, type Kill } from './account.ts';
import type { Work } from './journal.ts';
import type { PlannedKill } from './plan-kills.ts';
import { type Recovered, recoveryFrom } from './recovery.ts';
import { processOf, type Stage } from './stage.ts';
import { roleOf, rolloutOf, type Victim, victimOf } from './victims.ts';

const LOOK_MS = 10;
/** For so long the state that the plan asks for is waited for, an update longer; after that any state will do. */
const STATE_WITHIN_MS = 15_000;
const UPDATE_WITHIN_MS = 60_000;
const VICTIM_WITHIN_MS = 120_000;

class NoVictim extends Error {
  override readonly name = 'NoVictim';
}

/** Waits until the target is there and in the wanted state. Errors: `NoVictim` when it never is there. */
async function awaitVictim(planned: PlannedKill, stage: Stage, hit: ReadonlySet<string>, signal: AbortSignal): Promise<Victim> {
  const begun = Date.now();
  const patience = planned.target === 'trainer' ? UPDATE_WITHIN_MS : STATE_WITHIN_MS;
  for (;;) {
    signal.throwIfAborted();
    const victim = await victimOf(planned, stage, await stage.journal.underWay(), hit);
    const waited = Date.now() - begun;
    if (victim && (victim.state === planned.state || waited > patience)) return victim;
    if (waited > VICTIM_WITHIN_MS) throw new NoVictim(`no ${planned.target} is there to be killed`);
    await sleep(LOOK_MS);
  }
}

/** What the kill may have cut off; with the server gone, whatever was begun until it was back. */
function cutOff({ target }: PlannedKill, { sandbox }: Victim, works: readonly Work[]): readonly Work[] {
  const role = roleOf(target);
  if (role !== undefined) return works.filter((work) => work.role === role);
  if (sandbox !== undefined) return works.filter((work) => work.sandbox === sandbox);
  return target === 'temporal' || target === 'temporal-down' || target === 'dockerd' ? works : [];
}

/** While the supervisor stands still, what died stays dead. */
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

async function carryOut(planned: PlannedKill, victim: Victim, stage: Stage): Promise<Kill> {
  const { target, heldMs } = planned;
  const before = await stage.journal.underWay();
  const at = Date.now();
  await held(heldMs, stage.home, () => {
    if (target === 'client') stage.client.kill();
    else for (const each of victim.processes) killProcess(each);
  });
  while (victim.processes.some((each) => isAlive(each))) await sleep(1);
  const after = await stage.journal.underWay();
  const back: Recovered | undefined = await recoveryFrom(planned, victim, stage);
  const meanwhile = heldMs > 0 || target === 'temporal' || target === 'dockerd' ? (await stage.journal.all()).filter((work) => Date.parse(work.at) >= at) : [];
  return {
    process: target,
    pid: victim.processes[0]?.pid ?? 0,
    newPid: back?.newPid ?? null,
    state: victim.state,
    at: new Date(at).toISOString(),
    recoveredMs: back === undefined ? null : Math.max(0, back.at - at - heldMs),
    heldMs,
    ...(victim.sandbox === undefined ? {} : { what: victim.sandbox }),
    underWay: executionsIn(cutOff(planned, victim, [...before, ...after, ...meanwhile])),
  };
}

function lineOf(kill: Kill, index: number, kills: number): string {
  const { process: name, pid, newPid, state, recoveredMs, heldMs, underWay } = kill;
  const down = heldMs > 0 ? ` after ${heldMs / 1000} s down` : '';
  const back = recoveredMs === null ? 'not back' : `back in ${(recoveredMs / 1000).toFixed(1)} s${down}${newPid === null ? '' : ` (pid ${newPid})`}`;
  const cut = `${underWay.modelCalls} model calls, ${underWay.toolCalls} tool calls under way`;
  return `kill ${index + 1}/${kills}: ${state} ${name} (pid ${pid}), ${back}; ${cut}`;
}

/** Returns when every kill of the plan was made and has healed. Errors: that of `signal`. */
export async function disturb(plan: readonly PlannedKill[], stage: Stage, signal: AbortSignal): Promise<Kill[]> {
  const healing: Array<Promise<Kill>> = [];
  const hit = new Set<string>();
  for (const [index, planned] of plan.entries()) {
    if (!planned.together) await Promise.all(healing);
    await sleep(planned.pauseMs, undefined, { signal });
    const victim = await awaitVictim(planned, stage, hit, signal);
    if (victim.sandbox !== undefined) hit.add(rolloutOf(victim.sandbox));
    const carried = carryOut(planned, victim, stage).then((kill) => {
      stage.note(lineOf(kill, index, plan.length));
      return kill;
    });
    // Waited for above; a failure is told there.
    carried.catch(() => undefined);
    healing.push(carried);
  }
  return Promise.all(healing);
}
