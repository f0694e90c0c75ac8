/** Decides when a run has waited too long for something, and what to do about it. Pure: the time is an argument. */

import type { FailureClass } from '../../protocol/finish-reason.ts';
import { FAILURES } from '../../protocol/failure-policy.ts';
import { kindOfQueue, QUEUES } from '../../protocol/queues.ts';

/** One thing that one workflow waits for. */
export interface Pending {
  readonly workflow: string;
  /** The activity's type; `WORKFLOW_TASK` if the workflow waits for its own code to run. */
  readonly activity: string;
  readonly queue: string;
  /** `paused`: an operator paused this activity. */
  readonly state: 'scheduled' | 'started' | 'paused';
  /** Counts from 1. */
  readonly attempt: number;
  /** When it entered this state, in milliseconds since the epoch. */
  readonly since: number;
  /** The failure of its last attempt. */
  readonly failure?: {
    readonly error: string;
    readonly message: string;
    /** Absent for a workflow task. */
    readonly failure?: FailureClass;
  };
}

export interface Stall extends Omit<Pending, 'failure'> {
  readonly kind: 'no-worker' | 'no-slot' | 'failing' | 'slow' | 'paused';
  readonly why: string;
  readonly remedy: string;
}

const MINUTE = 60_000;
/** A worker polls at least every minute. */
const NO_WORKER_MS = MINUTE;
const NO_SLOT_MS = 10 * MINUTE;
/** From the third attempt on, a failure counts as repeated. */
export const FAILING_ATTEMPT = 3;
/** What a workflow waits for until a worker runs its code. */
export const WORKFLOW_TASK = 'workflow task';

/** An activity that runs longer is reported, not failed: activities have their own limits. Absent: ten minutes. */
const SLOW_MS: Readonly<Record<string, number>> = {
  update: 60 * MINUTE,
  planUpdate: 60 * MINUTE,
  forwardBackward: 60 * MINUTE,
  optimStep: 60 * MINUTE,
  releaseSandbox: 2 * MINUTE,
  holdSandbox: 2 * MINUTE,
};

/** The role that serves a queue: the queue's name without the host. */
const roleOf = (queue: string): string =>
  queue === QUEUES.gpuTrain || queue === QUEUES.endpoint || kindOfQueue(queue) !== undefined
    ? QUEUES.gpu
    : (queue.split('@')[0] ?? queue);

/** Workers of other kinds may be there: they leave this work to the kind that its run began with. */
function noEngine(queue: string, engine: string): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  return {
    kind: 'no-worker',
    why:
      `it waits for an engine of the kind ${engine}, with which its run began, and no worker of that kind polls ` +
      `the queue ${queue}`,
    remedy:
      'start a GPU worker on such a machine with the same build (npx longhaul ps shows the kinds of those that ' +
      'live), or let engines of other kinds continue, with which bits may differ: ' +
      'npx longhaul down, then LONGHAUL_MIXED_ENGINES=1 npx longhaul up --detach',
  };
}

function noWorker(queue: string): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  const engine = kindOfQueue(queue);
  if (engine !== undefined) return noEngine(queue, engine);
  const host = queue.split('@')[1];
  const remedy =
    host === undefined
      ? 'npx longhaul up --detach'
      : `npx longhaul up --detach on ${host}; if that host stays away, its sandboxes are restored on another one`;
  return { kind: 'no-worker', why: `no worker polls the queue ${queue}`, remedy: `start one: ${remedy}` };
}

function failing({
  activity,
  attempt,
  failure: { error, message, failure = 'internal' },
}: Pick<Pending, 'activity' | 'attempt'> & Required<Pick<Pending, 'failure'>>): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  const remedy = activity === WORKFLOW_TASK ? remedyOfTask(error) : FAILURES[failure].remedy;
  return { kind: 'failing', why: `attempt ${attempt}; the last failure: ${error}: ${message.slice(0, 200)}`, remedy };
}

/** Temporal retries a workflow task without limit: the workflow continues when its code works again. */
function remedyOfTask(error: string): string {
  if (error === 'NonDeterminism')
    return (
      'install the build that it started with (docs/operations.md, Upgrades), or terminate it and start its run ' +
      'again, which continues from its records'
    );
  return 'see the log: npx longhaul logs orchestrator; report it as a bug';
}

function paused({ activity, workflow }: Pending): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  const command = `temporal activity unpause --workflow-id ${workflow} --activity-type ${activity}`;
  return { kind: 'paused', why: 'somebody has paused this activity in Temporal', remedy: `resume it: ${command}` };
}

function verdictOn(pending: Pending, pollers: number, now: number): Pick<Stall, 'kind' | 'why' | 'remedy'> | undefined {
  const { activity, queue, state, attempt, since, failure } = pending;
  const waited = now - since;
  if (state === 'paused') return waited >= NO_WORKER_MS ? paused(pending) : undefined;
  if (state === 'scheduled' && pollers === 0 && waited >= NO_WORKER_MS) return noWorker(queue);
  if (attempt >= FAILING_ATTEMPT && failure) return failing({ activity, attempt, failure });
  if (state === 'scheduled' && waited >= NO_SLOT_MS) {
    return {
      kind: 'no-slot',
      why: `every worker of ${queue} is busy`,
      remedy: `start another worker (npx longhaul worker --role ${roleOf(queue)}), or wait`,
    };
  }
  if (state === 'started' && waited >= (SLOW_MS[activity] ?? NO_SLOT_MS)) {
    return {
      kind: 'slow',
      why: 'it has started and has not ended',
      remedy: `see the log: npx longhaul logs ${roleOf(queue)}`,
    };
  }
  return undefined;
}

/**
 * The stalls among what a run waits for. `pollers`: workers that poll its queue. One whose places are all taken polls
 * no more: what it works on says that it is there.
 */
export async function stallsOf(
  found: readonly Pending[],
  pollers: (pending: Pending) => Promise<number>,
  now: number,
): Promise<Stall[]> {
  /** One worker polls for a workflow's code and for activities separately. */
  const placeOf = ({ activity, queue }: Pending): string => `${activity === WORKFLOW_TASK} ${queue}`;
  const served = new Set(found.filter(({ state }) => state === 'started').map(placeOf));
  const stalls: Stall[] = [];
  for (const pending of found) {
    const stall = stallOf(pending, Math.max(await pollers(pending), served.has(placeOf(pending)) ? 1 : 0), now);
    if (stall) stalls.push(stall);
  }
  return stalls;
}

/** `pollers`: workers that poll its queue, or have all their places taken. */
export function stallOf(pending: Pending, pollers: number, now: number): Stall | undefined {
  const verdict = verdictOn(pending, pollers, now);
  if (!verdict) return undefined;
  const { failure: _, ...rest } = pending;
  // Between two attempts it is due in the future.
  return { ...rest, since: Math.min(rest.since, now), ...verdict };
}

/** One line per activity, queue and kind of stall: the one that has waited longest, and how many more. */
export function stallLines(stalls: readonly Stall[]): ReadonlyMap<string, string> {
  const groups = Map.groupBy(
    [...stalls].sort((a, b) => a.since - b.since),
    ({ activity, queue, kind }) => `${activity} ${queue} ${kind}`,
  );
  return new Map([...groups].map(([key, [first, ...others]]) => [key, first ? lineOf(first, others.length) : '']));
}

function lineOf({ activity, workflow, queue, since, why, remedy }: Stall, others: number): string {
  const more = others > 0 ? ` and ${others} more` : '';
  return (
    `stuck: ${activity} of ${workflow}${more}, on ${queue} since ${new Date(since).toISOString()}: ${why}; ` +
    `${remedy}`
  );
}
