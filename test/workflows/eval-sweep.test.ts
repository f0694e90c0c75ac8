/**
 * Hunts sweeps that repeat recorded work, that lose failures or count them twice, and results that depend on how often
 * a sweep was stopped. Real Temporal, store and bookkeeping; the rollouts' own activities are scripted.
 */
import { WorkflowFailedError } from '@temporalio/client';
import { rootCause } from '@temporalio/common';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { EvalResults } from '../../reports/evaluation/eval-results.ts';
import { evalKeys, type EvalRecord } from '../../reports/evaluation/eval-records.ts';
import type { EvalSettings } from '../../config/sweep-config.ts';
import { Longhaul } from '../../client/longhaul.ts';
import type { SweepResult, SweepStatus } from '../../protocol/eval.ts';
import { makePolicy, useEvalWorld } from '../support/eval-world.ts';
import { sandboxLost } from '../support/scripted-activities.ts';

const world = useEvalWorld();
const { dir } = world;
beforeAll(() => {
  makePolicy(join(dir, 'good'));
  makePolicy(join(dir, 'bad'), 'other weights');
});

let serial = 0;
const newId = () => `e${serial++}`;
const config = (over: object = {}) => ({
  dir: join(dir, 'evals'),
  tasks: { name: 'toy', count: 4 },
  policies: [join(dir, 'good')],
  samples: 3,
  passAt: [1, 3],
  sampling: [{ temperature: 1 }],
  dispatcher: { type: 'bounded', maxParallelAgents: 6 },
  bootstrap: { resamples: 100 },
  ...over,
});
const start = (id: string, over: object = {}) =>
  world.now.client.workflow.start('evalSweep', {
    taskQueue: 'orchestrator',
    workflowId: `eval/${id}`,
    args: [config(over)],
  });
const sweep = async (id: string, over: object = {}) => (await (await start(id, over)).result()) as SweepResult;
const resultsOf = (id: string) =>
  JSON.parse(readFileSync(join(dir, 'evals', id, 'results.json'), 'utf8')) as EvalResults;
/** Rollouts that reached their policy, as TASK/K. */
const rolledOut = () => {
  const ids = world.now.log.calls.filter(({ activity }) => activity === 'prepare').map(({ rollout }) => rollout);
  return ids.map((id) => id.split('/').slice(-2).join('/')).sort();
};
const place = (rollout: string | undefined) => rollout?.split('/').slice(-2).join('/');
const all = [0, 1, 2, 3].flatMap((task) => [0, 1, 2].map((k) => `toy-held-out-${task}/${k}`));

describe('a sweep', () => {
  it('rolls out every policy under every setting, and reports pass@k, failures and families of each', async () => {
    const id = newId();
    // Even tasks always pass, odd ones only in their first sample.
    world.script = { reward: (rollout) => (/-[02]\/\d$|-[13]\/0$/.test(rollout) ? 1 : 0) };
    const result = await sweep(id, {
      policies: [join(dir, 'good'), { name: 'other', policy: join(dir, 'bad') }],
      sampling: [{ temperature: 1 }, { temperature: 0 }],
    });
    expect(result).toMatchObject({ eval: id, rounds: 1, rollouts: 2 * (12 + 4), graded: 32 });
    expect(result.cells.map(({ cell }) => cell)).toEqual(['good/t1', 'good/greedy', 'other/t1', 'other/greedy']);
    const [sampled, greedy] = result.cells;
    expect(sampled?.passAt['1']?.mean).toBeCloseTo((1 + 1 / 3 + 1 + 1 / 3) / 4, 12);
    expect(sampled?.passAt['3']).toMatchObject({ mean: 1 });
    expect(Object.keys(greedy?.passAt ?? {})).toEqual(['1']);
    const { cells, status, accounting } = resultsOf(id);
    expect(status).toBe('completed');
    expect(cells[0]?.byFamily['odd']?.passAt['1']?.mean).toBeCloseTo(1 / 3, 12);
    expect(cells[0]?.byFamily['even']?.passAt['1']?.mean).toBe(1);
    expect(accounting).toEqual({
      dispatched: 32,
      trained: 0,
      masked: 0,
      dropped: 0,
      evaluated: 32,
      duplicated: 0,
      lost: 0,
    });
    expect(readFileSync(join(dir, 'evals', id, 'pass-at-k.svg'), 'utf8')).toMatch(
      /^<svg [^]*other\/greedy pass@1[^]*<\/svg>\n$/,
    );
    expect(
      readFileSync(join(dir, 'evals', id, 'rollouts.jsonl'), 'utf8')
        .trim()
        .split('\n').length,
    ).toBe(32);
  });

  it('keeps failures in the denominator, reports why, and runs only those when it is started again', async () => {
    const id = newId();
    const broken = new Set(['toy-held-out-1/2', 'toy-held-out-3/0', 'toy-held-out-3/2']);
    world.script = {
      before: (activity, { rollout }) => {
        if (activity === 'agentRun' && broken.has(place(rollout) ?? '')) throw sandboxLost();
      },
    };
    const first = await sweep(id, { maxFailed: 0.5 });
    expect(first).toMatchObject({
      rollouts: 12,
      graded: 9,
      cells: [
        {
          failed: { 'sandbox-lost': 3 },
          passAt: { '1': { mean: 0.75 } },
          ofGraded: { rollouts: 9, passAt: { '1': { mean: 1 } } },
        },
      ],
    });
    expect(resultsOf(id).accounting).toMatchObject({ dispatched: 12, evaluated: 9, masked: 3, lost: 0 });

    world.now.log.calls.length = 0;
    world.script = {};
    const second = await sweep(id, { maxFailed: 0.5 });
    expect(rolledOut()).toEqual([...broken].sort());
    expect(second).toMatchObject({
      rounds: 2,
      rollouts: 12,
      graded: 12,
      cells: [{ failed: {}, passAt: { '1': { mean: 1 } } }],
    });
    expect(resultsOf(id).accounting).toMatchObject({
      dispatched: 15,
      evaluated: 12,
      masked: 3,
      lost: 0,
      duplicated: 0,
    });

    world.now.log.calls.length = 0;
    expect((await sweep(id, { maxFailed: 0.5 })).cells).toEqual(second.cells);
    expect(rolledOut()).toEqual([]);
  });

  it('fails if more rollouts were not graded than it allows, with its results recorded', async () => {
    const id = newId();
    world.script = {
      before: (activity) => {
        if (activity === 'agentRun') throw sandboxLost();
      },
    };
    const tasks = { tasks: { name: 'toy', count: 2 } };
    const error = await (await start(id, tasks)).result().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(WorkflowFailedError);
    expect(String((error as WorkflowFailedError).cause?.message)).toMatch(
      /good\/t1: 6 sandbox-lost of 6.*start the same eval again/,
    );
    expect(resultsOf(id)).toMatchObject({ status: 'failed', cells: [{ graded: 0, passAt: { '1': { mean: 0 } } }] });
    world.script = {};
    expect(await sweep(id, tasks)).toMatchObject({ graded: 6, rounds: 2 });
  });

  it('that was cancelled continues with what is missing, and has the numbers of one that was not', async () => {
    const id = newId();
    const reward = (rollout: string) => (/-[13]\/[12]$/.test(rollout) ? 0 : 1);
    let graded = 0;
    world.script = {
      reward,
      before: async (activity) => {
        if (activity === 'generate' && graded >= 5) await sleep(400);
        if (activity === 'computeReward') graded += 1;
      },
    };
    const handle = await start(id, { dispatcher: { type: 'bounded', maxParallelAgents: 2 } });
    while (graded < 5) await sleep(20);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow();
    expect((await handle.describe()).status.name).toBe('CANCELLED');
    expect(resultsOf(id)).toMatchObject({ status: 'cancelled' });
    const kept = (await world.now.store.list<{ status: string }>(`outcome:eval/${id}/`))
      .filter(({ value }) => value.status === 'graded')
      .map(({ key }) => place(key)!);
    expect(kept.length).toBeGreaterThanOrEqual(4);
    expect(kept.length).toBeLessThan(12);

    world.now.log.calls.length = 0;
    world.script = { reward };
    const resumed = await sweep(id);
    expect(rolledOut()).toEqual(all.filter((one) => !kept.includes(one)));
    const undisturbed = await sweep(newId());
    expect(resumed.cells).toEqual(undisturbed.cells);
    expect(resultsOf(id).accounting).toMatchObject({ evaluated: 12, lost: 0, duplicated: 0 });
  });

  it('pauses between its batches and continues', async () => {
    const id = newId();
    let release: () => void;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.script = {
      before: async (activity) => {
        if (activity === 'computeReward') await held;
      },
    };
    const handle = await start(id, {
      sampling: [{ temperature: 1 }, { temperature: 0 }],
      dispatcher: { type: 'bounded', maxParallelAgents: 50 },
    });
    while (world.now.log.calls.filter(({ activity }) => activity === 'computeReward').length < 12) await sleep(20);
    await handle.signal('pause');
    await handle.signal('resume');
    await handle.signal('pause');
    release!();
    while ((await handle.query<SweepStatus>('status')).cell?.name !== 'good/greedy') await sleep(50);
    await sleep(500);
    expect(await handle.query<SweepStatus>('status')).toMatchObject({
      phase: 'paused',
      done: [{ cell: 'good/t1' }],
      batch: null,
    });
    expect(rolledOut().length).toBe(12);
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ rollouts: 16, graded: 16 });
  });

  it('that continues as new keeps its cells and its round', async () => {
    const id = newId();
    const sampling = [{ temperature: 1 }, { temperature: 0 }];
    const {
      cells: [first],
      evalDir,
    } = await sweep(id, { sampling });
    const { config: resolved } = (await world.now.store.get<EvalRecord>(evalKeys.record(id)))!;
    const { seed, agent, dispatcher, maxFailed } = resolved;
    const cells = resolved.sampling.map(({ name, samples, ...rest }) => ({
      name: `good/${name}`,
      policyName: 'good',
      samplingName: name,
      policy: { uri: 'file:///p', version: 0 },
      sampling: rest,
      samples,
    }));
    const opened = { eval: id, evalDir, round: 1, seed, agent, dispatcher, maxFailed, cells };
    const progress = { opened, done: [{ ...first!, policy: 'carried' }], chunk: 1, paused: false };
    world.now.log.calls.length = 0;
    const handle = await world.now.client.workflow.start('evalSweep', {
      taskQueue: 'orchestrator',
      workflowId: `eval/${id}`,
      args: [{}, progress],
    });
    expect(await handle.result()).toMatchObject({
      rounds: 1,
      cells: [{ policy: 'carried' }, { policy: 'good', sampling: 'greedy' }],
    });
    expect(rolledOut()).toEqual([]);
  });

  it('that continued as new while it was paused receives a resume that came before its first task', async () => {
    const id = newId();
    const { evalDir } = await sweep(id);
    const { config: resolved } = (await world.now.store.get<EvalRecord>(evalKeys.record(id)))!;
    const { seed, agent, dispatcher, maxFailed } = resolved;
    const cells = resolved.sampling.map(({ name, samples, ...rest }) => ({
      name: `good/${name}`,
      policyName: 'good',
      samplingName: name,
      policy: { uri: 'file:///p', version: 0 },
      sampling: rest,
      samples,
    }));
    const progress = {
      opened: { eval: id, evalDir, round: 2, seed, agent, dispatcher, maxFailed, cells },
      done: [],
      chunk: 0,
      paused: true,
    };
    const handle = await world.now.client.workflow.signalWithStart('evalSweep', {
      taskQueue: 'orchestrator',
      workflowId: `eval/${id}`,
      args: [{}, progress],
      signal: 'resume',
    });
    expect(await handle.result()).toMatchObject({ rounds: 2 });
  });

  it('that is running can be attached to only with its own settings, whoever started it', async () => {
    const id = newId();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    world.script = {
      before: async (activity) => {
        if (activity === 'generate') await held;
      },
    };
    const longhaul = await Longhaul.connect({ address: world.address });
    try {
      const own = { eval: id, ...config() } as EvalSettings;
      const first = await longhaul.evaluate(own);
      await expect(longhaul.evaluate({ ...own, dir: '/elsewhere' })).resolves.toMatchObject({ eval: id });
      const remedy = expect.stringMatching(
        /began with .*keep that, cancel it first, or give another eval name/,
      ) as string;
      await expect(longhaul.evaluate({ ...own, seed: 7 })).rejects.toMatchObject({ field: 'seed', value: 7, remedy });
      const dispatcher = { type: 'bounded' as const, maxParallelAgents: 2 };
      await expect(longhaul.evaluate({ ...own, dispatcher })).rejects.toMatchObject({
        field: 'dispatcher.maxParallelAgents',
        value: 2,
        remedy,
      });
      // Started by another client, without the memo.
      const other = newId();
      const bare = await start(other);
      await expect(longhaul.evaluate({ ...own, eval: other })).resolves.toMatchObject({ eval: other });
      await expect(longhaul.evaluate({ ...own, eval: other, samples: 1, passAt: [1] })).rejects.toMatchObject({
        field: 'passAt',
      });
      release();
      expect(await first.result()).toMatchObject({ graded: 12 });
      expect(await bare.result()).toMatchObject({ graded: 12 });
    } finally {
      release();
      await longhaul.close();
    }
  });

  it('refuses other settings, other weights and another name under a name that is known', async () => {
    const id = newId();
    const weights = makePolicy(join(dir, `policy-${id}`));
    await sweep(id, { policies: [{ name: 'p', policy: weights }] });
    const refusal = async (over: object) => {
      const error = await (await start(id, over)).result().catch((e: unknown) => e);
      return String(rootCause((error as WorkflowFailedError).cause));
    };
    expect(await refusal({ policies: [{ name: 'p', policy: weights }], seed: 2 })).toMatch(
      /seed: 2 cannot be used; eval e\d+ began with 1/,
    );
    expect(await refusal({ eval: 'another' })).toMatch(/eval: "another" cannot be used; the workflow's id is eval/);
    makePolicy(weights, 'new weights');
    expect(await refusal({ policies: [{ name: 'p', policy: weights }] })).toMatch(
      /policies\.p: .*its files have changed since/,
    );
    expect(existsSync(join(dir, 'evals', id, 'results.json'))).toBe(true);
  });
});
