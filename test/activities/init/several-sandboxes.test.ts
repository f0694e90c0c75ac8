/**
 * Hunts tasks with several sandboxes that hold half of what they need, lose one of them unseen, or leave one behind;
 * and tasks that wait for room that no host has. Not asserted: how sandboxes reach each other; see
 * test/sandboxes/network.test.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import type { ActRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { memoryOf } from '../../../sandboxes/leases.ts';
import type { Resources, SandboxRequest, Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { call, saying } from '../scripted-parts.ts';
import { attemptOf, inActivity, turnInput, useWorld } from '../world.ts';

const world = useWorld();
const machine: SandboxRequest = { workdir: '/work', files: [], env: {}, limits: { memoryMiB: 100, diskMiB: 20 } };
const EACH = memoryOf({ limits: { memoryMiB: 100, diskMiB: 20 } });
let task: Partial<Task>;
beforeEach(() => {
  task = {};
});
defineEnvironment({
  name: 'several',
  open: async () =>
    await Promise.resolve({
      digest: 'several',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Do it.' }],
          tools: ['bash', 'finish'],
          sandboxes: { main: { ...machine, network: 'inside' }, db: { ...machine, network: 'inside' } },
          grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
          ...task,
        }),
    }),
});

const attempt = { ...attemptOf(), task: 'several-train-0' };
const main = `${attempt.rollout}#1`;
const both = [main, `${main}+db`];

function parts(room: { readonly maxLiveSandboxes?: number; readonly sandboxMemoryMiB?: number } = {}) {
  const { store, provider, deps } = world.now;
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 9, sandboxTtlSeconds: 60, ...room };
  const init = createInitActivities(place);
  const agent = createAgentRunActivities(place);
  return {
    prepare: (of = attempt) => inActivity(() => init.prepare(of)),
    restore: () => inActivity(() => init.restoreSandbox({ ...attempt, restore: 1, toolTimeoutSeconds: 7 })),
    say: (turn: number, text: string) => {
      world.now.engine.answers[turn - 1] = saying(text);
      return generateTurn({ ...turnInput(turn), task: attempt.task }, { ...deps, tasks }, new AbortController().signal);
    },
    act: (turn: number, sandbox = main, others = ['db']) =>
      inActivity(() => agent.agentRun({ ...attempt, sandbox, others, host: 'here', turn, toolTimeoutSeconds: 7 })),
    release: () => inActivity(() => agent.releaseSandbox({ ...attempt, sandbox: main, others: ['db'], host: 'here' })),
    collect: () => inActivity(() => agent.collect({ ...attempt, sandbox: main, others: ['db'], host: 'here' })),
    gradeInPlace: () =>
      inActivity(() =>
        agent.gradeInPlace({
          ...attempt,
          sandbox: main,
          others: ['db'],
          host: 'here',
          finish: 'finish-tool',
          turns: 1,
        }),
      ),
    grade: () =>
      inActivity(() => createRewardActivities(place).computeReward({ ...attempt, finish: 'done', turns: 0 })),
  };
}

const leases = async () => (await world.now.store.leases('sandbox')).map(({ id }) => id);
const live = () => [...world.now.provider.live].toSorted();

describe('the sandboxes of a task', () => {
  it('are made together, and the card names them with the task’s limits', async () => {
    task = { gradedIn: 'agents', resources: { toolSeconds: 300, gradeSeconds: 1800, cpus: 2 } };
    expect(await parts().prepare()).toEqual({
      sandbox: { sandbox: main, others: ['db'], host: 'here', ttlSeconds: 60 },
      gradedIn: 'agents',
      limits: { toolSeconds: 300, gradeSeconds: 1800 },
    });
    expect(await parts().prepare()).toMatchObject({ sandbox: { sandbox: main } });
    expect(live()).toEqual(both);
    expect((await world.now.store.leases('sandbox')).map(({ id, memoryMiB }) => [id, memoryMiB])).toEqual(
      both.map((id) => [id, EACH]),
    );
  });

  it('are there for start, collect and the grader, by name', async () => {
    const seen: string[] = [];
    const note = async (ctx: Parameters<NonNullable<Task['collect']>>[0]) => {
      seen.push((await ctx.sandbox()).id, (await ctx.sandbox('db')).id);
    };
    task = {
      gradedIn: 'agents',
      start: async (ctx) => (await note(ctx), { state: 1 }),
      collect: async (ctx) => (await note(ctx), new Uint8Array()),
      grade: async (ctx) => (await note(ctx), { code: 'graded', reward: 1, passed: true, reason: '' }),
    };
    const { prepare, gradeInPlace, collect } = parts();
    await prepare();
    await gradeInPlace();
    await collect();
    expect(seen).toEqual([...both, ...both, ...both]);
    expect([live(), await leases()]).toEqual([[], []]);
  });

  it('are all released', async () => {
    const { prepare, release } = parts();
    await prepare();
    await release();
    expect([live(), await leases()]).toEqual([[], []]);
  });

  it('are all ended if one cannot be made', async () => {
    world.now.provider.afterCreate = () => {
      if (world.now.provider.live.size === 2) throw new Error('no more');
    };
    await expect(parts().prepare()).rejects.toThrow('no more');
    expect([live(), await leases()]).toEqual([[], []]);
  });

  it('are all lost with one of them, and all restored', async () => {
    const { prepare, say, act, restore } = parts();
    await prepare();
    await say(1, call('make it'));
    await act(1);
    await world.now.provider.destroy(`${main}+db`);
    await say(2, call('look'));
    await expect(act(2)).rejects.toMatchObject({ type: 'SandboxLost' });
    expect(await restore()).toMatchObject({ sandbox: { sandbox: `${main}~1`, others: ['db'] } });
    expect(live()).toEqual([`${main}~1`, `${main}~1+db`]);
    expect(await leases()).toEqual(live());
    await act(2, `${main}~1`);
    const { messages } = (await world.now.store.get<ActRecord>(keys.act(attempt, 2)))!;
    expect(messages[0]?.content).toBe('ran look');
  });

  it('that are graded afresh are made for the grader alone', async () => {
    let seen: string[] = [];
    task = {
      grade: async (ctx) => {
        seen = [(await ctx.sandbox('db')).id, (await ctx.sandbox()).id];
        return { code: 'graded', reward: 1, passed: true, reason: live().join() };
      },
    };
    const { reason } = (await parts().grade()) as { reason: string };
    expect(seen).toEqual([`${main}/grade-1+db`, `${main}/grade-1`]);
    expect(reason).toBe(`${main}/grade-1,${main}/grade-1+db`);
    expect(live()).toEqual([]);
  });
});

describe('room', () => {
  const other = (n: number) => ({ ...attempt, rollout: `${attempt.rollout}-${n}` });
  const idsOf = (n: number) => [`${other(n).rollout}#1`, `${other(n).rollout}#1+db`];

  it.each([
    ['places', { maxLiveSandboxes: 3 }],
    ['memory', { sandboxMemoryMiB: 3 * EACH }],
  ])('in %s is taken for all at once: nobody holds a half', async (_, room) => {
    const { prepare } = parts(room);
    await prepare(other(1));
    const waiting = prepare(other(2));
    await sleep(500);
    expect(await leases()).toEqual(idsOf(1));
    await world.now.store.releaseLease(idsOf(1)[1] ?? '');
    expect(await waiting).toMatchObject({ sandbox: { others: ['db'] } });
    expect(live()).toContain(idsOf(2)[1]);
  });

  it.each<[string, { maxLiveSandboxes?: number; sandboxMemoryMiB?: number }, RegExp]>([
    [
      'memory',
      { sandboxMemoryMiB: 2 * EACH - 1 },
      /needs 272 MiB .* may give 271: .*LONGHAUL_SANDBOX_MEMORY to at least 272/u,
    ],
    ['places', { maxLiveSandboxes: 1 }, /needs 2 sandboxes.* may hold 1: set LONGHAUL_MAX_SANDBOXES to at least 2/u],
  ])('that no host has, in %s, is refused at once', async (_, room, message) => {
    await expect(parts(room).prepare()).rejects.toMatchObject({
      type: 'SandboxImpossible',
      nonRetryable: true,
      message: expect.stringMatching(message) as string,
    });
    expect(await leases()).toEqual([]);
  });
});

it.each<[string, Partial<Task>, RegExp]>([
  ['a name', { resources: { toolSecond: 1 } as Resources }, /resources.toolSecond: 1 cannot be used; .*toolSeconds/u],
  ['zero', { resources: { gradeSeconds: 0 } }, /resources.gradeSeconds: 0 cannot be used; give a number above 0/u],
  ['a part of a MiB', { resources: { memoryMiB: 0.5 } }, /resources.memoryMiB: 0.5 .* whole number/u],
  ['no number', { resources: { setUpSeconds: Number.NaN } }, /resources.setUpSeconds: NaN/u],
  ['too much', { resources: { setUpSeconds: 99_999 } }, /at most 14400, in task several-train-0/u],
  ['a place', { gradedIn: 'here' as never }, /gradedIn: "here" cannot be used; give fresh, agents or none/u],
  ['no main', { sandboxes: { db: machine } }, /sandboxes: \["db"\] .* named main/u],
  ['a network alone', { sandboxes: { main: { ...machine, network: 'n' } } }, /sandboxes.main.network: "n" .*another/u],
  ['its own sandboxes', { sandboxes: {}, gradedIn: 'agents' }, /gradedIn: "agents" .*has no sandboxes/u],
  ['a wrong name', { sandboxes: { main: machine, 'Db 1': machine } }, /sandboxes: "Db 1"/u],
])('%s that cannot be is refused with field, value and remedy', async (_, given, message) => {
  task = given;
  await expect(parts().prepare()).rejects.toMatchObject({
    type: 'UserInputError',
    nonRetryable: true,
    message: expect.stringMatching(message) as string,
  });
  expect(live()).toEqual([]);
});

it('`none` grades by the work alone: no sandbox is made, and none can be had', async () => {
  task = {
    gradedIn: 'none',
    grade: async (ctx, { turnRewards }) => {
      const reason = await ctx.sandbox().then(
        ({ id }) => id,
        (error: unknown) => (error as Error).message,
      );
      return { code: 'graded', reward: turnRewards.length, passed: true, reason };
    },
  };
  const { prepare, collect, grade } = parts();
  expect(await prepare()).toMatchObject({ gradedIn: 'none' });
  await collect();
  world.now.provider.log.length = 0;
  expect(await grade()).toEqual({
    code: 'graded',
    reward: 0,
    passed: true,
    reason: 'several-train-0 is graded without sandboxes (gradedIn: none)',
  });
  expect(world.now.provider.log).toEqual([]);
});
