/**
 * Hunts groups that are lost, trained on twice or too late where rollouts and updates overlap: with stragglers, with
 * steering, with workers that die, and over new histories. Real server and workflows, scripted activities; not asserted
 * here: what becomes of rollouts in the store (test/activities), and how long it takes (`bench async`).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { TrainStatus } from '../../../../protocol/train-status.ts';
import type { UpdateInput } from '../../../../protocol/update.ts';
import { lasting } from '../../../support/scripted-activities.ts';
import { standstill } from '../../../support/standstill.ts';
import { useWorkflowWorld } from '../../../support/use-world.ts';
import { config, numbers, observe, stalenessOf } from './observe.ts';

const world = useWorkflowWorld(['--dynamic-config-value=limit.historyCount.suggestContinueAsNew=60']);

describe('async', () => {
  it('trains on each group once and none later than the bound, over several histories, with stragglers', async () => {
    const seen = observe('straggling');
    world.script = {
      update: seen.update,
      turn: (input) => {
        seen.generate(input as never);
        return input.turn < 2 ? 'act' : 'finish';
      },
      before: async (activity, { rollout = '' }) => {
        if (activity === 'agentRun' && /group-(2|7)\//.test(rollout)) await sleep(1500);
      },
    };
    const handle = await world.start(
      'train',
      'train/straggling',
      config('straggling', { mode: 'async', maxStalenessSteps: 2 }),
    );
    expect(await handle.result()).toMatchObject({ steps: 5, policy: { version: 5 } });
    expect(seen.trained.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
    expect(seen.trained.flatMap(({ groups }) => groups).sort()).toEqual(numbers(1, 10).sort());
    expect(Math.max(...stalenessOf(seen))).toBe(2);
    expect(seen.trained[0]!.groups).not.toContain('group-2');
    expect(
      seen.asked.filter(({ rollout }) => rollout.includes('group')).every(({ newestOf }) => newestOf === 'straggling'),
    ).toBe(true);
    expect((await handle.describe()).runId).not.toBe(handle.firstExecutionRunId);
    await expect.poll(() => world.now.log.live).toBe(0);
  });

  it('with rollouts that keep the version they started with, and with groups that must vary', async () => {
    const seen = observe('varying');
    const updates: UpdateInput[] = [];
    world.script = {
      update: (input) => {
        if (input.run === 'varying') updates.push(input);
        seen.update(input);
      },
      turn: (input) => {
        seen.generate(input as never);
        return 'finish';
      },
      batch: ({ batch, tasks }) => void manifests.set(batch, tasks),
      // Of each group's tasks the first never varies.
      reward: (rollout) => (rollout.endsWith('/0') && varies(rollout) ? 0 : 1),
    };
    const manifests = new Map<string, readonly string[]>();
    const first = new Map<string, string>();
    const varies = (rollout: string) => {
      const [, , group = '', task = ''] = rollout.split('/');
      if (!first.has(group)) first.set(group, task);
      return first.get(group) !== task;
    };
    const batch = { tasks: 2, samples: 2, dynamicSampling: { type: 'filter', maxSampleBatches: 3 } };
    const handle = await world.start(
      'train',
      'train/varying',
      config('varying', { mode: 'async', maxStalenessSteps: 1, rolloutVersion: 'begin' }, { batch, steps: 3 }),
    );
    await handle.result();
    expect(updates).toHaveLength(3);
    for (const { wanted, batches } of updates) {
      expect(wanted).toBe(1);
      for (const drawn of batches) expect(manifests.get(drawn)!.length).toBeGreaterThan(1);
    }
    expect(seen.asked.every(({ newestOf }) => newestOf === undefined)).toBe(true);
    expect(Math.max(...stalenessOf(seen))).toBeLessThanOrEqual(1);
  });

  it('pauses at a turn and at a step, takes changes, and continues', async () => {
    const seen = observe('steered');
    const rates: number[] = [];
    world.script = {
      update: (input) => {
        if (input.run === 'steered') rates.push(input.algorithm.learningRate);
        seen.update(input);
      },
      turn: ({ turn }) => (turn < 3 ? 'act' : 'finish'),
      before: async (activity) => {
        if (activity === 'agentRun') await sleep(100);
      },
    };
    const handle = await world.start(
      'train',
      'train/steered',
      config('steered', { mode: 'async', maxStalenessSteps: 1 }, { steps: 4 }),
    );
    const status = () => handle.query<TrainStatus>('status');
    await expect.poll(async () => (await status()).step, { interval: 20 }).toBeGreaterThan(0);
    await handle.signal('pause');
    // Until the last rollout has received it.
    await standstill(world);
    expect(await status()).toMatchObject({ phase: 'paused', pauseAt: 'turn' });
    expect((await status()).overlap?.running).toBeGreaterThan(0);
    await handle.executeUpdate('configure', { args: [{ learningRate: 0.25 }] });
    await handle.signal('resume');
    await expect.poll(() => rates.at(-1), { interval: 20 }).toBe(0.25);
    await handle.signal('pause', 'step');
    await expect.poll(async () => (await status()).phase, { interval: 20 }).toBe('paused');
    const { step } = await status();
    await sleep(700);
    expect((await status()).step).toBe(step);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 4 });
    expect(seen.trained.flatMap(({ groups }) => groups).sort()).toEqual(numbers(1, 8).sort());
  });

  /** A step takes four groups, one at a time. */
  const narrow = { steps: 2, batch: { tasks: 4, samples: 2 }, dispatcher: { type: 'bounded', maxParallelAgents: 2 } };

  it.each([
    ['at a step', ['step']],
    ['at a turn, and then at a step', ['turn', 'step']],
  ])('paused %s, ends the step that lacks groups, starts none of the next, and waits', async (_, points) => {
    const run = `lacking-${points.length}`;
    const seen = observe(run);
    const acting = Promise.withResolvers<void>();
    world.script = {
      update: seen.update,
      turn: (input) => {
        seen.generate(input as never);
        return input.turn < 2 ? 'act' : 'finish';
      },
      before: (activity, { rollout = '' }) => {
        if (activity === 'agentRun' && rollout.includes(`${run}/group-1/`)) acting.resolve();
      },
    };
    const handle = await world.start(
      'train',
      `train/${run}`,
      config(run, { mode: 'async', maxStalenessSteps: 1 }, narrow),
    );
    const status = () => handle.query<TrainStatus>('status');
    await acting.promise;
    for (const [i, point] of points.entries()) {
      await handle.signal('pause', point);
      // What was in flight has ended.
      if (i < points.length - 1)
        await expect.poll(async () => (await status()).overlap).toEqual({ running: 0, waiting: 1 });
    }
    await expect
      .poll(async () => {
        const { phase, step } = await status();
        return { phase, step };
      })
      .toEqual({ phase: 'paused', step: 1 });
    expect([...seen.began.keys()].sort()).toEqual(numbers(1, 4));
    expect((await status()).overlap).toEqual({ running: 0, waiting: 0 });
    await handle.signal('resume');
    await handle.result();
    expect(seen.trained.map(({ groups }) => groups.sort())).toEqual([numbers(1, 4), numbers(5, 8)]);
  });

  it('starts a group again that is ended by hand while its step must end', async () => {
    const acting = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity !== 'agentRun' || !rollout.includes('ending/group-1/')) return;
        acting.resolve();
        await lasting(ended.promise);
      },
    };
    const handle = await world.start(
      'train',
      'train/ending',
      config('ending', { mode: 'async', maxStalenessSteps: 1 }, narrow),
    );
    await acting.promise;
    await handle.signal('pause', 'step');
    await world.now.client.workflow.getHandle('train/ending/group-1').terminate('by hand');
    ended.resolve();
    await expect.poll(async () => (await handle.query<TrainStatus>('status')).phase).toBe('paused');
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 2 });
  });

  it('ends what is in flight when it is cancelled', async () => {
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity === 'agentRun' && !/group-[12]\//.test(rollout)) await sleep(800);
      },
    };
    const cancelled = await world.start(
      'train',
      'train/cancelled',
      config('cancelled', { mode: 'async', maxStalenessSteps: 3 }),
    );
    await expect.poll(async () => (await cancelled.query<TrainStatus>('status')).step, { interval: 20 }).toBe(1);
    await cancelled.cancel();
    await expect(cancelled.result()).rejects.toThrow();
    expect((await cancelled.describe()).status.name).toBe('CANCELLED');
    await expect.poll(() => world.now.log.live).toBe(0);
    expect(world.now.log.calls.findLast(({ activity }) => activity === 'closeRun')).toMatchObject({
      rollout: 'cancelled',
    });
  });

  it('is cancelled at once while units are starting', async () => {
    world.script = {
      before: async (activity) => {
        if (activity === 'agentRun') await sleep(200);
      },
    };
    const over = { batch: { tasks: 8, samples: 2 }, dispatcher: { type: 'bounded', maxParallelAgents: 48 } };
    const cancelled = await world.start(
      'train',
      'train/beginning',
      config('beginning', { mode: 'async', maxStalenessSteps: 2 }, over),
    );
    const begins = async () => {
      const { events } = await cancelled.fetchHistory();
      return (
        events?.some(({ startChildWorkflowExecutionInitiatedEventAttributes: child }) =>
          child?.workflowId?.includes('/group-'),
        ) ?? false
      );
    };
    // The server knows the first of twenty-four, which it starts one after the other.
    await expect.poll(begins, { interval: 1 }).toBe(true);
    await cancelled.cancel();
    await expect(cancelled.result()).rejects.toThrow();
    await expect.poll(() => world.now.log.live).toBe(0);
  });

  it('ends what no step waits for when it is shortened', async () => {
    const configured = Promise.withResolvers<void>();
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity !== 'agentRun' || !/group-(?![12]\/)/.test(rollout)) return;
        await lasting(configured.promise);
        await sleep(800);
      },
    };
    const shortened = await world.start(
      'train',
      'train/shortened',
      config('shortened', { mode: 'async', maxStalenessSteps: 3 }),
    );
    await expect.poll(async () => (await shortened.query<TrainStatus>('status')).step, { interval: 20 }).toBe(1);
    await shortened.executeUpdate('configure', { args: [{ steps: 2 }] });
    configured.resolve();
    expect(await shortened.result()).toMatchObject({ steps: 2 });
    await expect.poll(() => world.now.log.live).toBe(0);
  });

  it('fails with the reason when a needed group is ended by hand, if the run may not be paused', async () => {
    const acting = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity !== 'agentRun' || !rollout.includes('broken/group-1/')) return;
        acting.resolve();
        await ended.promise;
      },
    };
    const handle = await world.start(
      'train',
      'train/broken',
      config('broken', { mode: 'async', maxStalenessSteps: 1 }, { breaker: { maxConsecutiveFailures: 0 } }),
    );
    await acting.promise;
    await world.now.client.workflow.getHandle('train/broken/group-1').terminate('by hand');
    ended.resolve();
    await expect(handle.result()).rejects.toMatchObject({
      cause: { message: expect.stringMatching(/group-1 failed/) },
    });
    // Rollouts of the group release their sandboxes meanwhile, and after it.
    expect(world.now.log.calls.findLast(({ activity }) => activity === 'closeRun')).toMatchObject({
      rollout: 'failed',
    });
  });
});

/**
 * Why: signals that a run received during an update are handled after it, in a new history if the current one is full.
 */
describe('a new history after an update', () => {
  const async = { mode: 'async', maxStalenessSteps: 3 } as const;

  /** Rollouts of `groups` and the update of `step` wait during `during`; then the current history is full. */
  async function duringUpdate(
    run: string,
    step: number,
    groups: readonly number[],
    during: (client: typeof world.now.client) => Promise<void>,
    over: object = {},
  ) {
    const [updating, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let updates = 0;
    world.script = {
      before: async (activity, { rollout = '' }) => {
        if (activity === 'agentRun' && groups.some((group) => rollout.includes(`${run}/group-${group}/`)))
          await lasting(go.promise);
        if (activity !== 'update' || ++updates !== step) return;
        updating.resolve();
        await lasting(go.promise);
      },
    };
    const handle = await world.start('train', `train/${run}`, config(run, async, { steps: 4, ...over }));
    await updating.promise;
    await during(world.now.client);
    for (let i = 0; i < 15; i += 1) {
      await handle.signal('pause');
      await handle.signal('resume');
    }
    go.resolve();
    return handle;
  }

  it('looks for a group that was ended by hand without a report', async () => {
    const seen = observe('unheard');
    const handle = await duringUpdate('unheard', 2, [4], async ({ workflow }) => {
      world.script = { ...world.script, update: seen.update };
      const unit = workflow.getHandle('train/unheard/group-4');
      const { runId } = await workflow.getHandle('train/unheard').describe();
      expect((await unit.describe()).raw.workflowExecutionInfo?.parentExecution?.runId).not.toBe(runId);
      await unit.terminate('by hand');
    });
    expect(await handle.result()).toMatchObject({ steps: 4 });
    expect(seen.trained.flatMap(({ groups }) => groups)).toContain('group-4');
  });

  it('is none where a group failed that no step has waited for', async () => {
    const handle = await duringUpdate(
      'failing',
      1,
      [3, 4],
      async ({ workflow }) => {
        await workflow.getHandle('train/failing/group-4').terminate('by hand');
        await workflow.getHandle('train/failing/group-3').terminate('by hand');
      },
      { breaker: { maxConsecutiveFailures: 0 } },
    );
    await expect(handle.result()).rejects.toMatchObject({
      // The server may deliver their ends in either order.
      cause: { message: expect.stringMatching(/group-[34] failed/) },
    });
    // Rollouts of the group release their sandboxes meanwhile, and after it.
    expect(world.now.log.calls.findLast(({ activity }) => activity === 'closeRun')).toMatchObject({
      rollout: 'failed',
    });
  });
});

describe('one-step-off', () => {
  it('rolls out the next step with the previous policy while an update runs', async () => {
    const seen = observe('behind');
    const next = Promise.withResolvers<void>();
    world.script = {
      update: seen.update,
      turn: (input) => {
        seen.generate(input as never);
        if (input.rollout.includes('behind/step-2/')) next.resolve();
        return 'finish';
      },
      // The first update ends only when the second step's rollouts have started.
      before: (activity) => (activity === 'update' ? next.promise : undefined),
    };
    const handle = await world.start('train', 'train/behind', config('behind', { mode: 'one-step-off' }, { steps: 4 }));
    await handle.result();
    expect(seen.trained.map(({ groups }) => groups)).toEqual([['step-1'], ['step-2'], ['step-3'], ['step-4']]);
    expect(stalenessOf(seen)).toEqual([0, 1, 1, 1]);
  });
});
