/**
 * The workflow `train` on a real Temporal server, over scripted activities: its steps, evaluations, pauses and ends. Not
 * asserted here: what the activities do (their own tests), and crashes of processes (test/e2e).
 */
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { TrainStatus } from '../../protocol/train-status.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
let serial = 0;
const newId = () => `w${serial++}`;
const start = (workflow: string, id: string, args: unknown[]) => world.start(workflow, id, ...args);
const count = (activity: string) => world.count(activity);

describe('train', () => {
  const config = (run: string, over: object = {}) => ({
    run,
    policy: { base: '/p' },
    task: { name: 't', train: 10 },
    steps: 2,
    batch: { tasks: 2, samples: 2 },
    evaluation: { tasks: 2 },
    dispatcher: { type: 'bounded', maxParallelAgents: 4 },
    ...over,
  });

  it('evaluates, takes its steps with one update each, evaluates again, and closes the run', async () => {
    const run = newId();
    const result = await (await start('train', `train/${run}`, [config(run)])).result();
    expect(result).toMatchObject({ run, steps: 2, policy: { version: 2 } });
    expect(count('update')).toBe(2);
    expect(count('summariseEvaluation')).toBe(2);
    expect(count('recordStep')).toBe(2);
    expect(world.now.log.calls.at(-1)).toMatchObject({ activity: 'closeRun', rollout: 'completed' });
    const rollouts = new Set(world.now.log.calls.filter((c) => c.activity === 'computeReward').map((c) => c.rollout));
    expect(rollouts.size).toBe(2 * 4 + 2 * 4);
    expect([...rollouts]).toContain(`train/${run}/eval-2-greedy/t-held-out-0/0`);
  });

  it.each(['sync', 'one-step-off'])(
    'passes all drawn groups and the rule to judge them to an update, %s',
    async (mode) => {
      const run = newId();
      const updates: UpdateInput[] = [];
      // The first sample of a group's task fails where its number is odd: of the ten tasks every other varies.
      world.script = {
        turn: () => 'finish',
        reward: (rollout) => (/-train-\d*[13579]\/0$/.test(rollout) ? 0 : 1),
        update: (input) => void updates.push(input),
        batch: ({ batch, tasks }) => void manifests.set(batch, tasks),
      };
      const manifests = new Map<string, readonly string[]>();
      const batch = {
        tasks: 2,
        samples: 2,
        dynamicSampling: { type: 'replace', maxSampleBatches: 3, minReplaceRatio: 0.5 },
      };
      await (
        await start('train', `train/${run}`, [
          config(run, { batch, training: { mode }, evaluation: { tasks: 1, greedy: false } }),
        ])
      ).result();
      expect(updates.length).toBe(2);
      for (const { replace, batches, wanted } of updates) {
        const tasks = manifests.get(batches[0]!)!;
        expect([replace, wanted]).toEqual([{ groups: 2, minReplaceRatio: 0.5 }, undefined]);
        const varies = (from: number) => tasks.slice(from, from + 2).every((task) => /[13579]$/.test(task));
        const pairs = Array.from({ length: tasks.length / 2 }, (_, i) => varies(2 * i));
        // Every pair except the last has too few that vary; the last has enough, or there are no more candidates.
        expect(pairs.slice(0, -1)).toEqual(pairs.slice(0, -1).map(() => false));
        expect(pairs.at(-1) === true || pairs.length === 3).toBe(true);
      }
    },
  );

  it('refuses a bad configuration and names the field', async () => {
    const handle = await start('train', `train/${newId()}`, [
      { steps: 0, policy: { base: '/p' }, task: { name: 't' } },
    ]);
    const error = await handle.result().catch((e: unknown) => e);
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).toMatch(/steps/);
  });

  it('pauses between steps, takes a new configuration, and continues with it', async () => {
    const run = newId();
    let release: () => void;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.script = {
      before: async (activity) => {
        if (activity === 'update') await held;
      },
    };
    const handle = await start('train', `train/${run}`, [
      config(run, { steps: 3, evaluation: { tasks: 1, greedy: false } }),
    ]);
    await handle.signal('pause');
    await expect(handle.executeUpdate('configure', { args: [{ nonsense: 1 }] })).rejects.toThrow();
    const changed = await handle.executeUpdate('configure', { args: [{ steps: 1, learningRate: 0.5 }] });
    expect(changed).toMatchObject({ steps: 1, algorithm: { learningRate: 0.5 } });
    await sleep(1500);
    expect(await handle.query<TrainStatus>('status')).toMatchObject({ phase: 'paused', step: 0, steps: 1 });
    await handle.signal('resume');
    release!();
    expect(await handle.result()).toMatchObject({ steps: 1 });
  });

  it('is cancelled also if the update that it waited for failed meanwhile', async () => {
    const run = newId();
    world.script = {
      before: async (activity) => {
        if (activity !== 'update') return;
        await sleep(500);
        throw ApplicationFailure.create({ message: 'nothing was graded', type: 'NoValidRollouts', nonRetryable: true });
      },
    };
    const handle = await start('train', `train/${run}`, [config(run)]);
    while (count('update') === 0) await sleep(20);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    expect((await handle.describe()).status.name).toBe('CANCELLED');
    expect(world.now.log.calls.find((c) => c.activity === 'closeRun')).toMatchObject({ rollout: 'cancelled' });
  });

  it('closes the run as cancelled and leaves no sandbox behind', async () => {
    const run = newId();
    world.script = {
      before: async (activity) => {
        if (activity === 'agentRun') await sleep(200);
      },
    };
    const handle = await start('train', `train/${run}`, [config(run)]);
    while (count('agentRun') === 0) await sleep(50);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    expect(world.now.log.calls.find((c) => c.activity === 'closeRun')).toMatchObject({ rollout: 'cancelled' });
    while (world.now.log.live > 0) await sleep(50);
    expect(world.now.log.live).toBe(0);
  });
});
