/** When something that a run waits for has taken too long, and what to do about it. Pure: it is told the time. */

import type { FailureClass } from '../../protocol/finish-reason.ts';
import { FAILURES } from '../../protocol/failure-policy.ts';
import { QUEUES } from '../../protocol/queues.ts';

/** One thing that one workflow waits for. */
export interface Pending {
  readonly workflow: string;
  /** Of an activity its type; `WORKFLOW_TASK` where the workflow's own code has not been run. */
  readonly activity: string;
  readonly queue: string;
  /** `paused`: by hand, the activity alone. */
  readonly state: 'scheduled' | 'started' | 'paused';
  /** 1 is the first. */
  readonly attempt: number;
  /** Milliseconds since the epoch at which it came into this state. */
  readonly since: number;
  /** What its last try failed with. */
  readonly failure?: {
    readonly error: string;
    readonly message: string;
    /** Absent of a workflow's own task. */
    readonly failure?: FailureClass;
  };
}

export interface Stall extends Omit<Pending, 'failure'> {
  readonly kind: 'no-worker' | 'no-slot' | 'failing' | 'slow' | 'paused';
  readonly why: string;
  readonly remedy: string;
}

const MINUTE = 60_000;
/** A worker polls every minute at least. */
const NO_WORKER_MS = MINUTE;
const NO_SLOT_MS = 10 * MINUTE;
/** From the third try on it is no accident. */
export const FAILING_ATTEMPT = 3;
/** What a workflow waits for while its own code is not being run. */
export const WORKFLOW_TASK = 'workflow task';

/** Longer than this is worth a word, not an error: limits are the activities' own. Absent: ten minutes. */
const SLOW_MS: Readonly<Record<string, number>> = {
  update: 60 * MINUTE,
  planUpdate: 60 * MINUTE,
  forwardBackward: 60 * MINUTE,
  optimStep: 60 * MINUTE,
  releaseSandbox: 2 * MINUTE,
  holdSandbox: 2 * MINUTE,
};

/** The stage or role that serves a queue: its name, without the host. */
const roleOf = (queue: string): string =>
  queue === QUEUES.gpuTrain || queue === QUEUES.endpoint ? QUEUES.gpu : (queue.split('@')[0] ?? queue);

function noWorker(queue: string): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  const host = queue.split('@')[1];
  const remedy =
    host === undefined
      ? 'npx longhaul up --detach'
      : `npx longhaul up --detach on ${host}; a sandbox whose host stays away is restored elsewhere`;
  return { kind: 'no-worker', why: `no worker polls the queue ${queue}`, remedy: `start one: ${remedy}` };
}

function failing({
  activity,
  attempt,
  failure: { error, message, failure = 'internal' },
}: Pick<Pending, 'activity' | 'attempt'> & Required<Pick<Pending, 'failure'>>): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  const remedy = activity === WORKFLOW_TASK ? remedyOfTask(error) : FAILURES[failure].remedy;
  return { kind: 'failing', why: `try ${attempt}; the last one: ${error}: ${message.slice(0, 200)}`, remedy };
}

/** Temporal runs such a task again for as long as it takes: it goes on when its code does. */
function remedyOfTask(error: string): string {
  if (error === 'NonDeterminism')
    return 'bring the build back that it began with (docs/operations.md, Upgrades), or terminate it and start its run again, which goes on from its records';
  return 'see the log of the orchestrator worker: npx longhaul ps; report it as a bug';
}

function paused({ activity, workflow }: Pending): Pick<Stall, 'kind' | 'why' | 'remedy'> {
  const command = `temporal activity unpause --workflow-id ${workflow} --activity-type ${activity}`;
  return { kind: 'paused', why: 'somebody has paused this activity in Temporal', remedy: `let it go on: ${command}` };
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
      why: 'it has begun and has not ended',
      remedy: `see the log of the ${roleOf(queue)} worker: npx longhaul ps`,
    };
  }
  return undefined;
}

/** `pollers`: workers that poll its queue. */
export function stallOf(pending: Pending, pollers: number, now: number): Stall | undefined {
  const verdict = verdictOn(pending, pollers, now);
  if (!verdict) return undefined;
  const { failure: _, ...rest } = pending;
  // Between two tries it is due in the future.
  return { ...rest, since: Math.min(rest.since, now), ...verdict };
}

/** A line by the kind of thing that is stuck and its queue: the one that has waited longest, and how many more. */
export function stallLines(stalls: readonly Stall[]): ReadonlyMap<string, string> {
  const groups = Map.groupBy(
    [...stalls].sort((a, b) => a.since - b.since),
    ({ activity, queue, kind }) => `${activity} ${queue} ${kind}`,
  );
  return new Map([...groups].map(([key, [first, ...others]]) => [key, first ? lineOf(first, others.length) : '']));
}

function lineOf({ activity, workflow, queue, since, why, remedy }: Stall, others: number): string {
  const more = others > 0 ? ` and ${others} more` : '';
  return `stuck: ${activity} of ${workflow}${more}, on ${queue} since ${new Date(since).toISOString()}: ${why}; ${remedy}`;
}
