/** When a killed process is back at work: seen from outside, by what it does, not by what it reports. */

import { setTimeout as sleep } from 'node:timers/promises';
import { keys } from '../protocol/record-keys.ts';
import { ensureStack } from '../stack/ensure-stack.ts';
import type { Role } from '../workers/settings.ts';
import type { PlannedKill } from './plan-kills.ts';
import { processOf, type Stage } from './stage.ts';
import { readyWorker, roleOf, rolloutOf, type Victim } from './victims.ts';
import { workWaits } from './waiting-work.ts';

export interface Recovered {
  readonly newPid: number | null;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

const POLL_MS = 50;
const ANSWERS_WITHIN_MS = 2000;
const BACK_WITHIN_MS = 120_000;

/** What `look` finds; `undefined` if it finds nothing by the deadline. */
async function until<T>(look: () => Promise<T | undefined>, deadline: number): Promise<T | undefined> {
  while (Date.now() < deadline) {
    const found = await look().catch(() => undefined);
    if (found !== undefined) return found;
    await sleep(POLL_MS);
  }
  return undefined;
}

/** True if a query is answered, which needs the server and a worker that runs workflows. */
async function answers({ longhaul, run }: Stage): Promise<boolean> {
  const asked = longhaul.client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => run.status());
  return asked.then(
    () => true,
    () => false,
  );
}

/** A worker is back when it polls its queue, and has started work if some waited. */
async function worker(role: Role, killed: number, stage: Stage): Promise<Recovered | undefined> {
  const ready = readyWorker(stage.home, role);
  if (ready === undefined || ready.pid === killed) return undefined;
  if (role === 'orchestrator') return (await answers(stage)) ? { newPid: ready.pid, at: Date.now() } : undefined;
  const begun = (await stage.journal.all()).find((work) => work.role === role && Date.parse(work.at) >= ready.at);
  if (begun) return { newPid: ready.pid, at: Date.parse(begun.at) };
  const { longhaul, store, run } = stage;
  const asked = longhaul.client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () =>
    workWaits(longhaul.client, store, run.run, role),
  );
  return (await asked) ? undefined : { newPid: ready.pid, at: Date.now() };
}

async function server(killed: number, stage: Stage): Promise<Recovered | undefined> {
  const pid = processOf(stage.home, 'temporal')?.pid;
  return pid !== undefined && pid !== killed && (await answers(stage)) ? { newPid: pid, at: Date.now() } : undefined;
}

/** A sandbox is replaced when its rollout has another one, or has ended without one. */
async function sandbox({ sandbox: id = '', processes }: Victim, stage: Stage): Promise<Recovered | undefined> {
  const rollout = rolloutOf(id);
  const other = (await stage.sandboxes(`${rollout}#`)).find((one) => one.inner.pid !== processes[0]?.pid);
  if (other) return { newPid: other.inner.pid, at: Date.now() };
  return (await stage.store.get(keys.outcome(rollout))) === undefined ? undefined : { newPid: null, at: Date.now() };
}

/** Restarts the supervisor, as an operator or systemd would. */
async function supervisor({ home, env, note }: Stage): Promise<Recovered | undefined> {
  try {
    await ensureStack({ home, env, timeoutMs: BACK_WITHIN_MS });
    return { newPid: processOf(home, 'supervisor')?.pid ?? null, at: Date.now() };
  } catch (error) {
    note(`the stack does not start: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/** `undefined` if it is not back within two minutes. */
export async function recoveryFrom(
  { target }: PlannedKill,
  victim: Victim,
  stage: Stage,
): Promise<Recovered | undefined> {
  const deadline = Date.now() + BACK_WITHIN_MS;
  const killed = victim.processes[0]?.pid ?? 0;
  const role = roleOf(target);
  if (role !== undefined) return until(() => worker(role, killed, stage), deadline);
  if (target === 'temporal' || target === 'temporal-down') return until(() => server(killed, stage), deadline);
  if (victim.sandbox !== undefined) return until(() => sandbox(victim, stage), deadline);
  if (target === 'supervisor') return supervisor(stage);
  const pid = await (target === 'dockerd' && stage.docker ? stage.docker : stage.client).startAgain(deadline);
  return pid === undefined ? undefined : { newPid: pid, at: Date.now() };
}
