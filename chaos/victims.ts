/** The current processes of a planned kill, and their state, from the stack's records and the run's journal. */

import { readFileSync } from 'node:fs';
import { identify, type ProcessIdentity } from '../sandboxes/supervised/process-identity.ts';
import { readyFile } from '../workers/run-worker.ts';
import type { Role } from '../workers/settings.ts';
import type { Work } from './journal.ts';
import type { Activity, PlannedKill, Target } from './plan-kills.ts';
import { processOf, type Stage, stackState } from './stage.ts';

export interface Victim {
  /** The first is the one in the report. */
  readonly processes: readonly ProcessIdentity[];
  readonly state: Activity;
  /** The id of the sandbox, if the target is one. */
  readonly sandbox?: string;
}

export function roleOf(target: Target): Role | undefined {
  if (target === 'trainer') return 'gpu';
  return target === 'orchestrator' ||
    target === 'init' ||
    target === 'agent-run' ||
    target === 'reward' ||
    target === 'gpu'
    ? target
    : undefined;
}

export interface Ready {
  readonly pid: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** The process of this role that polls its queue, and the time of its start. */
export function readyWorker(home: string, role: Role): Ready | undefined {
  try {
    const { pid, at } = JSON.parse(readFileSync(readyFile(home, role), 'utf8')) as { pid: number; at: string };
    return identify(pid) ? { pid, at: Date.parse(at) } : undefined;
  } catch {
    return undefined;
  }
}

const as = (busy: boolean): Activity => (busy ? 'busy' : 'idle');

/** True if anything but an update is in flight: during an update all rollouts wait. */
const rolloutsGoOn = (works: readonly Work[]) => works.some(({ kind }) => kind !== 'update');

function worker(target: Target, role: Role, stage: Stage, works: readonly Work[]): Victim | undefined {
  const ready = readyWorker(stage.home, role);
  const found = ready && identify(ready.pid);
  if (!found) return undefined;
  const own = works.filter((work) => work.role === role && Date.parse(work.at) >= ready.at);
  const busy =
    target === 'trainer'
      ? own.some(({ kind }) => kind === 'update')
      : role === 'orchestrator'
        ? rolloutsGoOn(works)
        : own.length > 0;
  return { processes: [found], state: as(busy) };
}

/** A grader's sandbox is always busy. */
function isBusy(id: string, works: readonly Work[]): boolean {
  return (
    id.includes('/grade-') ||
    works.some(({ kind, sandbox }) => sandbox === id && (kind === 'tool' || kind === 'collect'))
  );
}

async function sandbox(
  { target, state, choice }: PlannedKill,
  stage: Stage,
  works: readonly Work[],
  hit: ReadonlySet<string>,
): Promise<Victim | undefined> {
  // No rollout is hit twice: a rollout that loses its sandbox three times is masked.
  const live = (await stage.sandboxes(`${stage.run.workflowId}/`)).filter(({ id }) => !hit.has(rolloutOf(id)));
  const wanted = live.filter(({ id }) => isBusy(id, works) === (state === 'busy'));
  const of = wanted.length > 0 ? wanted : live;
  const one = of[Math.floor(choice * of.length)];
  if (!one) return undefined;
  const { id, inner, outer } = one;
  return {
    processes: [inner, ...(target === 'sandbox' && outer ? [outer] : [])],
    state: as(isBusy(id, works)),
    sandbox: id,
  };
}

export const rolloutOf = (sandboxId: string): string => sandboxId.replace(/#.*$/su, '');

function named(name: string, stage: Stage): ProcessIdentity | undefined {
  const pid =
    name === 'client' ? stage.client.pid : name === 'dockerd' ? stage.docker?.pid : processOf(stage.home, name)?.pid;
  return pid === undefined || pid === 0 ? undefined : identify(pid);
}

/** `undefined` if there is no such process now. */
export async function victimOf(
  planned: PlannedKill,
  stage: Stage,
  works: readonly Work[],
  hit: ReadonlySet<string>,
): Promise<Victim | undefined> {
  const { target } = planned;
  const role = roleOf(target);
  if (role !== undefined) return worker(target, role, stage, works);
  if (target === 'sandbox' || target === 'sandbox-supervisor') return sandbox(planned, stage, works, hit);
  const found = named(target === 'temporal-down' ? 'temporal' : target, stage);
  if (!found) return undefined;
  const starts = stackState(stage.home)?.processes.some((one) => one.state !== 'ready') ?? false;
  return { processes: [found], state: as(target === 'supervisor' ? starts : rolloutsGoOn(works)) };
}
