/**
 * Hunts deadlines by which a policy escapes its reward, and deadlines that machines spent and that cost it one. The
 * server is real, activities are scripted: they report how long the policy itself took. That a sandbox reports this,
 * and ends its calls with the deadline: test/activities/agent-run/message-budget.test.ts.
 */
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { AgentSettings, RolloutResult } from '../../../protocol/rollout.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import { initialState, reduce } from '../../../workflows/rollout/rollout-loop.ts';
import { RolloutClock } from '../../../workflows/rollout/rollout-clock.ts';
import { restoreFailed, sandboxLost, type Script, waitsForDisk } from '../../support/scripted-activities.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
let serial = 0;
const DEADLINE = 3;
interface Outcome {
  readonly result: RolloutResult;
  /** Activities, in their order. */
  readonly calls: readonly string[];
}

/** `script` is for this rollout alone: the tests run beside each other, since they do little but wait. */
async function rollOut(script: Script, agent: Partial<AgentSettings> = {}): Promise<Outcome> {
  const id = `deadline-${serial++}`;
  const part = world.part(id, script);
  const given = {
    task: 't-train-0',
    policy: { uri: 'file:///p', version: 1 },
    agent: { deadlineSeconds: DEADLINE, ...agent },
  };
  const result = (await (await world.start('rollout', id, given)).result()) as RolloutResult;
  expect(part.live()).toBe(0);
  return { result, calls: part.calls };
}
/** Of the first turn. */
const ran = (ms: number) => (activity: string, turn: number) =>
  activity === 'agentRun' && turn === 1 ? ms : undefined;
/** Past the deadline. */
const late = async (activity: string) => {
  if (activity === 'agentRun') await sleep(DEADLINE * 1000 + 500);
};

describe.concurrent('a rollout whose time is over', () => {
  it('is graded as it is if its own turns took the time', async () => {
    const { result, calls } = await rollOut({ before: late, ran: ran(2900), reward: () => 0 });
    expect(result).toMatchObject({ status: 'graded', reward: 0, finish: 'deadline', turns: 1 });
    expect(calls).toEqual(['prepare', 'generate', 'agentRun', 'collect', 'computeReward']);
  });

  it('is graded without the turn that was being sampled', async () => {
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    const { result } = await rollOut({
      before: (activity, { turn }) => (activity === 'generate' && turn === 2 ? held : undefined),
      ran: ran(1500),
    });
    expect(result).toMatchObject({ status: 'graded', reward: 1, finish: 'deadline', turns: 1 });
    letGo();
  });

  it('counts sampling as well as tool calls', async () => {
    const { result } = await rollOut({ before: late, ran: () => 800 });
    expect(result).toMatchObject({ status: 'graded', finish: 'deadline' });
  });

  it.each([
    ['machines took most of it', 1400, {}],
    ['it is to be masked', 2900, { atDeadline: 'mask' as const }],
  ])('is masked where %s', async (_, ms, agent) => {
    const { result, calls } = await rollOut({ before: late, ran: ran(ms) }, agent);
    expect(result).toMatchObject({ status: 'failed', failure: 'deadline' });
    expect(result.reward).toBeUndefined();
    expect(calls).not.toContain('computeReward');
  });

  it('is masked if there is no sandbox to collect from any more', async () => {
    const { result } = await rollOut({
      before: async (activity) => {
        await late(activity);
        if (activity === 'collect') throw sandboxLost();
      },
      ran: ran(2900),
    });
    expect(result).toMatchObject({ status: 'failed', failure: 'deadline' });
  });
});

describe.concurrent('time that machines lost', () => {
  const LOST = { nextRetryDelay: `${DEADLINE + 1}s` } as const;
  const graded = { status: 'graded', reward: 1, finish: 'finish-tool', turns: 2 };

  it.each([
    ['generate', 1],
    ['agentRun', 1],
    ['restoreSandbox', 1],
    ['prepare', 2],
  ])('to an earlier attempt of %s is not the rollout’s', async (lossy, attempt) => {
    const losesItsSandbox = lossy === 'restoreSandbox' || lossy === 'prepare';
    let [tries, acted] = [0, 0];
    const { result } = await rollOut({
      before: (activity, input) => {
        if (losesItsSandbox && activity === 'agentRun' && (acted += 1) === 1) throw sandboxLost();
        if (attempt === 2 && activity === 'restoreSandbox') throw restoreFailed();
        if (activity !== lossy || input.attempt !== attempt || (tries += 1) > 1) return;
        throw ApplicationFailure.create({ type: 'Error', message: 'once', ...LOST });
      },
    });
    expect(result).toMatchObject({ ...graded, attempt });
    expect(tries).toBeGreaterThan(1);
  });

  it('to a worker that has its cache, and is gone, is not the rollout’s', async () => {
    // The wait for that worker takes five seconds.
    const { result } = await rollOut({
      turn: ({ turn }) => (turn < 3 ? 'act' : 'finish'),
      worker: ({ turn }) => (turn === 1 ? 'gone' : undefined),
    });
    expect(result).toMatchObject({ ...graded, turns: 3 });
  });

  it('to a wait for a disk within an attempt is not the rollout’s', async () => {
    const { result } = await rollOut({
      before: (activity) => (activity === 'generate' ? waitsForDisk(DEADLINE + 1) : undefined),
    });
    expect(result).toMatchObject(graded);
  });

  it('before the rollout was held is not the rollout’s', async () => {
    let tries = 0;
    const id = `deadline-${serial++}`;
    world.part(id, {
      before: (activity) => {
        if (activity !== 'generate' || (tries += 1) > 2) return;
        if (tries === 1) throw ApplicationFailure.create({ type: 'Error', message: 'once', ...LOST });
        throw ApplicationFailure.nonRetryable('50 workers ended in it', 'WorkersLost');
      },
    });
    const given = { task: 't-train-0', policy: { uri: 'file:///p', version: 1 }, agent: { deadlineSeconds: DEADLINE } };
    const handle = await world.start('rollout', id, given);
    await expect.poll(async () => (await handle.query<RolloutState>('state')).held?.failure).toBe('quarantined');
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ ...graded, attempt: 1 });
  });
});

describe('what it spent itself', () => {
  const agent = { deadlineSeconds: 10, atDeadline: 'grade' as const };
  const acting = { ...initialState, phase: 'act' as const };

  it('is carried over to a new history', () => {
    const clock = new RolloutClock(agent, { spentMs: null }, 0);
    clock.start(0);
    clock.addTurn({ ms: 3000 });
    const next = new RolloutClock(agent, clock.spent(4000), 9000);
    expect(next.spentMs(9000)).toBe(4000);
    next.addTurn({ ms: 2000 });
    expect(next.passed(acting)).toEqual({ type: 'out-of-time' });
  });

  it('starts from zero with a new attempt', () => {
    const clock = new RolloutClock(agent, { spentMs: 0, ownMs: 9000 }, 0);
    clock.restart();
    expect(clock.passed(acting)).toMatchObject({ type: 'failed', failure: 'deadline' });
  });

  it('is graded by the loop like the last turn, and is not an event of another phase', () => {
    const limits = { maxTurns: 5, maxAttempts: 1, maxRestores: 0 };
    expect(reduce({ ...acting, turn: 2 }, { type: 'out-of-time' }, limits)).toMatchObject({
      phase: 'collect',
      attempt: 1,
      turn: 2,
      finish: 'deadline',
    });
    expect(reduce({ ...acting, phase: 'generate', turn: 2 }, { type: 'out-of-time' }, limits)).toMatchObject({
      phase: 'collect',
      attempt: 1,
      turn: 1,
      finish: 'deadline',
    });
    expect(() => reduce({ ...acting, phase: 'grade' }, { type: 'out-of-time' }, limits)).toThrow(TypeError);
  });
});
