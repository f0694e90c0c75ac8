/**
 * Hunts a run that is stuck without a report: what is stuck is named with its queue, its time and a remedy; what is
 * only slow is not.
 */
import { describe, expect, it } from 'vitest';
import { chooseWorkflows, type OpenWorkflow } from '../../../workers/watchdog/choose-workflows.ts';
import { pendingOf } from '../../../workers/watchdog/find-stalls.ts';
import { type Pending, stallLines, stallOf, stallsOf, WORKFLOW_TASK } from '../../../workers/watchdog/stall.ts';
import { FAILURES } from '../../../protocol/failure-policy.ts';

const MINUTE = 60_000;
const T0 = Date.UTC(2026, 0, 2, 3, 4, 5);
const pending = (over: Partial<Pending> = {}): Pending => ({
  workflow: 'train/r/step-1/t-train-0/0',
  activity: 'generate',
  queue: 'gpu',
  state: 'scheduled',
  attempt: 1,
  since: T0,
  ...over,
});

describe('what is stuck', () => {
  it('is what no worker has polled for in a minute', () => {
    expect(stallOf(pending(), 0, T0 + MINUTE - 1)).toBeUndefined();
    expect(stallOf(pending(), 0, T0 + MINUTE)).toMatchObject({
      kind: 'no-worker',
      why: 'no worker polls the queue gpu',
      remedy: 'start one: npx longhaul up --detach',
    });
    expect(stallOf(pending({ activity: 'agentRun', queue: 'agent-run@host-7' }), 0, T0 + MINUTE)?.remedy).toMatch(
      /on host-7/,
    );
  });

  it('is not what waits for a worker that polls no more, since all its places are taken', async () => {
    const task = pending({ activity: WORKFLOW_TASK });
    const found = [pending(), pending({ state: 'started', workflow: 'another' }), pending({ queue: 'init' }), task];
    const kinds = async (waited: number) =>
      (await stallsOf(found, async () => await Promise.resolve(0), T0 + waited)).map(({ kind, queue }) => [
        kind,
        queue,
      ]);
    expect(await kinds(2 * MINUTE)).toEqual([
      ['no-worker', 'init'],
      ['no-worker', 'gpu'],
    ]);
    expect(await kinds(10 * MINUTE)).toEqual([
      ['no-slot', 'gpu'],
      ['slow', 'gpu'],
      ['no-worker', 'init'],
      ['no-worker', 'gpu'],
    ]);
  });

  it('is what waits among busy workers, or runs, for ten minutes; an update for an hour', () => {
    expect(stallOf(pending(), 3, T0 + 10 * MINUTE - 1)).toBeUndefined();
    expect(stallOf(pending(), 3, T0 + 10 * MINUTE)).toMatchObject({
      kind: 'no-slot',
      remedy: expect.stringContaining('--role gpu'),
    });
    expect(stallOf(pending({ queue: 'endpoint' }), 3, T0 + 10 * MINUTE)).toMatchObject({
      kind: 'no-slot',
      remedy: expect.stringContaining('--role gpu'),
    });
    expect(stallOf(pending({ state: 'started' }), 0, T0 + 10 * MINUTE)).toMatchObject({ kind: 'slow' });
    expect(stallOf(pending({ state: 'started', activity: 'update' }), 1, T0 + 59 * MINUTE)).toBeUndefined();
  });

  it('is what fails for the third time, with the remedy of its class', () => {
    const failure = {
      error: 'EndpointUnavailable',
      message: 'connection refused',
      failure: 'endpoint-unavailable' as const,
    };
    expect(stallOf(pending({ attempt: 2, failure }), 1, T0)).toBeUndefined();
    expect(stallOf(pending({ attempt: 3, failure }), 1, T0)).toMatchObject({
      kind: 'failing',
      why: 'attempt 3; the last failure: EndpointUnavailable: connection refused',
      remedy: FAILURES['endpoint-unavailable'].remedy,
    });
  });

  it('is what timed out for the third time, which is not a bug to report, with the remedy of its class', () => {
    const tried = (lastFailure: object) => {
      const raw = {
        pendingActivities: [
          {
            state: 1,
            attempt: 3,
            activityType: { name: 'computeReward' },
            scheduledTime: { seconds: T0 / 1000 },
            lastFailure,
          },
        ],
      };
      return stallOf(pendingOf({ workflowId: 'w', raw: raw as never })[0]!, 1, T0);
    };
    const timeout = (message: string, timeoutType: number) => tried({ message, timeoutFailureInfo: { timeoutType } });
    expect(timeout('activity Heartbeat timeout', 4)).toMatchObject({
      kind: 'failing',
      why: 'attempt 3; the last failure: timeout: activity Heartbeat timeout',
      remedy: FAILURES.timeout.remedy,
    });
    expect(timeout('activity StartToClose timeout', 1)).toMatchObject({ remedy: FAILURES.timeout.remedy });
    expect(tried({ message: 'No space is left', applicationFailureInfo: { type: 'StoreFull' } })).toMatchObject({
      why: 'attempt 3; the last failure: StoreFull: No space is left',
      remedy: FAILURES['store-unavailable'].remedy,
    });
    expect(tried({ message: 'x is undefined', applicationFailureInfo: { type: 'TypeError' } })).toMatchObject({
      why: 'attempt 3; the last failure: TypeError: x is undefined',
      remedy: FAILURES.internal.remedy,
    });
  });

  it('is dated now at the latest: between two attempts it is due in the future', () => {
    const failure = { error: 'EngineLost', message: 'gone' };
    expect(stallOf(pending({ attempt: 3, failure, since: T0 + 5_000 }), 1, T0)).toMatchObject({ since: T0 });
  });

  it('is what somebody has paused, with the command that resumes it, and not a missing worker', () => {
    const one = pending({ state: 'paused' });
    expect(stallOf(one, 0, T0 + MINUTE - 1)).toBeUndefined();
    expect(stallOf(one, 0, T0 + MINUTE)).toMatchObject({
      kind: 'paused',
      remedy: `resume it: temporal activity unpause --workflow-id ${one.workflow} --activity-type generate`,
    });
  });

  it('counts an activity with a requested cancellation or pause as started, not as without a worker', () => {
    const at = (ms: number) => ({ seconds: ms / 1000 });
    const of = (state: number) =>
      pendingOf({
        workflowId: 'w',
        raw: {
          pendingActivities: [
            {
              state,
              activityType: { name: 'computeReward' },
              scheduledTime: at(T0),
              lastStartedTime: at(T0 + MINUTE),
              pauseInfo: { pauseTime: at(T0 + 2 * MINUTE) },
            },
          ],
        } as never,
      })[0];
    expect([1, 2, 3, 4, 5].map((state) => [of(state)?.state, (of(state)!.since - T0) / MINUTE])).toEqual([
      ['scheduled', 0],
      ['started', 1],
      ['started', 1],
      ['paused', 2],
      ['started', 1],
    ]);
  });

  it('is a workflow whose own task fails again and again, with what its code said', () => {
    const task = { activity: 'workflow task', queue: 'orchestrator', attempt: 57 };
    const nondeterminism = pending({
      ...task,
      failure: { error: 'NonDeterminism', message: '[TMPRL1100] Activity machine does not handle this event' },
    });
    expect(stallOf(nondeterminism, 1, T0)).toMatchObject({
      kind: 'failing',
      why: expect.stringMatching(/^attempt 57; the last failure: NonDeterminism: \[TMPRL1100\]/),
      remedy: expect.stringContaining('install the build'),
    });
    expect(stallOf(pending({ ...task, failure: { error: 'TypeError', message: 'x' } }), 1, T0)?.remedy).toContain(
      'npx longhaul logs orchestrator',
    );
  });

  it('is told in one line by queue and kind, the oldest first', () => {
    const many = [3, 1, 2].map((n) => stallOf(pending({ workflow: `w${n}`, since: T0 - n * MINUTE }), 0, T0 + MINUTE)!);
    expect([...stallLines(many).values()]).toEqual([
      'stuck: generate of w3 and 2 more, on gpu since 2026-01-02T03:01:05.000Z: no worker polls the queue gpu; start one: npx longhaul up --detach',
    ]);
  });
});

describe('one look at many open workflows', () => {
  const minutes = (n: number) => T0 + n * MINUTE;
  const rollouts = Array.from({ length: 3000 }, (_, i) => ({
    id: `rollout-${i}`,
    type: 'rollout',
    startedAt: minutes(i),
  }));
  const open: OpenWorkflow[] = [
    ...rollouts,
    { id: 'run', type: 'train', startedAt: minutes(9000) },
    ...[1, 2].map((n) => ({ id: `batch-${n}`, type: 'batch', startedAt: minutes(8000 + n) })),
  ];

  it('asks about what all others wait for, about the rollouts that have run for longest, and about some new ones', () => {
    const asked = chooseWorkflows(open);
    expect(asked.slice(0, 4)).toEqual(['run', 'batch-1', 'batch-2', 'rollout-0']);
    expect(asked.filter((id) => id.startsWith('rollout'))).toEqual([
      ...Array.from({ length: 150 }, (_, i) => `rollout-${i}`),
      ...Array.from({ length: 50 }, (_, i) => `rollout-${2950 + i}`),
    ]);
  });

  it('asks about each once, however few there are', () => {
    expect(chooseWorkflows([...rollouts.slice(0, 160), ...rollouts.slice(0, 10)]).toSorted()).toEqual(
      rollouts
        .slice(0, 160)
        .map(({ id }) => id)
        .toSorted(),
    );
  });
});
