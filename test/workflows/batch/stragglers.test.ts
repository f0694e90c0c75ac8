/**
 * Stragglers: hunted are a batch that waits forever, a rollout given up that was graded in time, a group left with
 * fewer members than a baseline needs, and a rollout that is not counted.
 */
import fc from 'fast-check';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { BatchLedger, varies } from '../../../workflows/batch/ledger.ts';
import { Countdown, isCompleteWithoutRest, refusedStraggler } from '../../../workflows/batch/stragglers.ts';
import type { BatchResult } from '../../../protocol/batch.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const result = (reward: number | undefined): RolloutResult => ({
  rollout: 'r',
  task: 't',
  attempt: 1,
  turns: 1,
  ...(reward === undefined
    ? { status: 'failed', failure: 'sandbox-lost' }
    : { status: 'graded', reward, passed: reward > 0 }),
});

describe('the decision', () => {
  it('completes a group once, with as many graded members as the setting says, and never one that has ended', () => {
    const rewards = fc.array(fc.option(fc.integer({ min: 0, max: 1 }), { nil: undefined, freq: 3 }), {
      minLength: 2,
      maxLength: 12,
    });
    fc.assert(
      fc.property(rewards, fc.nat({ max: 10 }), (ends, without) => {
        fc.pre(refusedStraggler({ completeGroupWithout: without }, ends.length) === undefined);
        const ledger = new BatchLedger(ends.length);
        const at = ends.flatMap((reward, i) => {
          const tally = ledger.end(0, result(reward));
          return reward !== undefined && isCompleteWithoutRest(tally, ends.length, { completeGroupWithout: without })
            ? [i]
            : [];
        });
        expect(at.length).toBeLessThanOrEqual(1);
        const graded = ends.slice(0, (at[0] ?? -1) + 1).filter((reward) => reward !== undefined).length;
        if (at.length > 0) expect(graded).toBe(ends.length - without);
        if (at.length > 0) expect(graded).toBeGreaterThanOrEqual(2);
        if (without === 0) expect(at).toEqual([]);
      }),
    );
  });

  it('refuses settings that leave no baseline, and invalid deadlines', () => {
    expect(refusedStraggler({}, 2)).toBeUndefined();
    expect(refusedStraggler({ completeGroupWithout: 2, deadlineSeconds: 0.5 }, 4)).toBeUndefined();
    expect(refusedStraggler({ completeGroupWithout: 3 }, 4)).toMatchObject({ field: 'completeGroupWithout', value: 3 });
    expect(refusedStraggler({ completeGroupWithout: 1 }, 2)).toMatchObject({
      remedy: expect.stringContaining('up to 0'),
    });
    for (const deadlineSeconds of [0, -1, Number.NaN, Infinity])
      expect(refusedStraggler({ deadlineSeconds }, 4)?.field).toBe('deadlineSeconds');
  });

  it('counts down only while it runs', () => {
    const clock = new Countdown(100);
    expect(clock.leftMs(1000)).toBe(100);
    clock.start(1000);
    clock.start(1050);
    expect(clock.leftMs(1030)).toBe(70);
    clock.stop(1030);
    expect(clock.leftMs(5000)).toBe(70);
    clock.start(5000);
    expect(clock.leftMs(9000)).toBe(0);
  });
});

describe('the ledger', () => {
  it('is the same whether it is carried over between two ends or not', () => {
    const rewards = fc.array(
      fc.tuple(fc.nat({ max: 3 }), fc.option(fc.integer({ min: 0, max: 1 }), { nil: undefined })),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(rewards, fc.nat({ max: 40 }), (ends, cut) => {
        const whole = new BatchLedger(5);
        let carried = new BatchLedger(5);
        for (const [i, [group, reward]] of ends.entries()) {
          if (i === cut)
            carried = new BatchLedger(5, JSON.parse(JSON.stringify(carried.progress)) as typeof carried.progress);
          const [one, other] = [whole.end(group, result(reward)), carried.end(group, result(reward))];
          expect(other).toEqual(one);
          expect(varies(other, 2)).toBe(varies(one, 2));
        }
        expect(carried.counts).toEqual(whole.counts);
      }),
    );
  });
});

describe('a batch', () => {
  const world = useWorkflowWorld();
  afterEach(() => expect(world.now.log.live).toBe(0));
  const input = (over: object) => ({
    run: 'late',
    name: 'b',
    step: 1,
    tasks: ['t-train-0', 't-train-1'],
    samples: 4,
    policy: { uri: 'file:///p', version: 1 },
    agent: { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'bounded', maxParallelAgents: 6 },
    ...over,
  });

  it('gives up at its deadline running rollouts and those that have not started, and keeps what was graded', async () => {
    let over = false;
    world.script = {
      before: async (activity, { rollout }) => {
        while (!over && activity === 'agentRun' && !rollout?.endsWith('t-train-0/1')) await sleep(50);
      },
    };
    const handle = await world.start(
      'batch',
      'late/deadline',
      input({ dispatcher: { type: 'bounded', maxParallelAgents: 3 }, stragglers: { deadlineSeconds: 8 } }),
    );
    const ended = (await handle.result()) as BatchResult;
    over = true;
    expect(ended).toMatchObject({ groups: 2, rollouts: 8, graded: 1, failures: { deadline: 7 } });
    // Rollouts that had not started end at once, cancelled ones when they have ended.
    expect(world.count('recordFailures')).toBeLessThanOrEqual(7);
    expect(world.count('recordFailures')).toBeGreaterThan(0);
    expect((await world.now.client.workflow.getHandle('late/deadline/t-train-0/0').describe()).status.name).toBe(
      'CANCELLED',
    );
  });

  it('completes a group without its last members if it is configured to', async () => {
    let over = false;
    world.script = {
      before: async (activity, { rollout }) => {
        while (!over && activity === 'agentRun' && rollout?.endsWith('t-train-1/2')) await sleep(50);
      },
    };
    const handle = await world.start('batch', 'late/group', input({ stragglers: { completeGroupWithout: 1 } }));
    const ended = (await handle.result()) as BatchResult;
    over = true;
    // In the other group the last one, when three were graded, is given up, unless it was graded at the same time.
    expect(ended.graded).toBeGreaterThanOrEqual(6);
    expect(ended.graded + (ended.failures.straggler ?? 0)).toBe(8);
    expect((await world.now.client.workflow.getHandle('late/group/t-train-1/2').describe()).status.name).toBe(
      'CANCELLED',
    );
  });

  it('refuses a setting that leaves no baseline, before any work', async () => {
    const handle = await world.start('batch', 'late/refused', input({ stragglers: { completeGroupWithout: 3 } }));
    await expect(handle.result()).rejects.toMatchObject({
      cause: { message: expect.stringMatching(/stragglers\.completeGroupWithout: 3 cannot be used/) },
    });
    expect(world.now.log.calls).toEqual([]);
  });
});
