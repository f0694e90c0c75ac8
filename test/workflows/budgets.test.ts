/**
 * Hunts runs and evals that lose or mask a rollout because a judge is down or a budget is spent, and budgets that count
 * a call twice or not at all. Real Temporal, store, bookkeeping and activities, with a real HTTP server as the judge;
 * the policy's engine and the updates are scripted.
 */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { embeddedOnly } from '../../activities/backends/embedded-backend.ts';
import { createGpuActivities } from '../../activities/gpu.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createOrchestratorActivities } from '../../activities/orchestrator/orchestrator.ts';
import { createSweepActivities } from '../../activities/orchestrator/sweep/sweep-activities.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import type { SweepResult, SweepStatus } from '../../protocol/eval.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { SpendingTally } from '../../reports/spending.ts';
import type { Task } from '../../tasks/environment.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { characterTokenizer, saying, ScriptedEngine, ScriptedProvider } from '../activities/scripted-parts.ts';
import { type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';
import { makePolicy } from '../support/eval-world.ts';
import { useStoreWorld } from '../support/use-store-world.ts';

let judge: LoopbackServer;
const engine = new ScriptedEngine();

defineEnvironment({
  name: 'judged',
  judges: ['strict'],
  open: async () =>
    await Promise.resolve({
      digest: 'judged',
      splits: { train: 100, 'held-out': 100 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Say it.' }],
          tools: [],
          gradedIn: 'none',
          grade: async (ctx, { answer }) => {
            const reward = Number(await ctx.ask(`${ctx.id} ${answer}`));
            return { code: 'graded', reward, passed: reward > 0, reason: '' };
          },
          oracle: async () => await Promise.resolve([{ role: 'assistant', content: 'it' }]),
        }),
    }),
});

const world = useStoreWorld((store, scripted) => {
  const tasks = new TaskLoader(store);
  const endpoints = new EndpointClient({});
  const place = { store, tasks, endpoints, provider: new ScriptedProvider(), host: 'test-host' };
  const agent = { ...place, maxLiveSandboxes: 9, sandboxTtlSeconds: 60 };
  return {
    init: createInitActivities(agent),
    agentRun: createAgentRunActivities(agent),
    reward: createRewardActivities(place),
    gpu: {
      ...createGpuActivities({
        store,
        tasks,
        endpoints,
        ...embeddedOnly({
          engine,
          tokenizerOf: async () => await Promise.resolve(characterTokenizer()),
          digestOf: async () => await Promise.resolve('files'),
        }),
      }),
      update: (input) => scripted.gpu.update(input),
    },
    orchestrator: createOrchestratorActivities({
      store,
      tasks,
      temporal: { address: '', namespace: 'default', ui: '' },
      describePolicy: async () => await Promise.resolve({ parameters: 1, vocabulary: 2 }),
    }),
    sweeps: createSweepActivities({ store, tasks }),
  };
});

const answer = (content: string) => ({
  body: {
    choices: [{ finish_reason: 'stop', message: { content } }],
    usage: { prompt_tokens: 90, completion_tokens: 10 },
  },
});
beforeAll(async () => {
  judge = await startLoopback(() => answer('1'));
  makePolicy(join(world.dir, 'policy'));
  engine.generate = async () => await Promise.resolve(saying('it'));
});
beforeEach(() => {
  judge.handler = () => answer('1');
  judge.asked.length = 0;
});
afterAll(() => judge.close());

/** Without those that check the endpoint before the run. */
const questions = () => judge.asked.filter(({ body }) => JSON.stringify(body).includes('grade-'));
const judges = (over: object = {}) => ({
  strict: {
    endpoint: { baseUrl: judge.baseUrl, model: 'm', maxTries: 1, timeoutSeconds: 1, patienceSeconds: 1 },
    ...over,
  },
});
const evalOf = (over: object = {}) => ({
  dir: join(world.dir, 'evals'),
  tasks: { name: 'judged', count: 3 },
  policies: ['oracle'],
  judges: judges(),
  dispatcher: { type: 'bounded', maxParallelAgents: 1 },
  bootstrap: { resamples: 100 },
  ...over,
});
const runOf = (over: object = {}) => ({
  dir: join(world.dir, 'runs'),
  policy: { base: join(world.dir, 'policy') },
  task: { name: 'judged' },
  steps: 1,
  batch: { tasks: 1, samples: 2 },
  evaluation: { tasks: 1, greedy: false },
  algorithm: { learningRate: 0.001 },
  dispatcher: { type: 'bounded', maxParallelAgents: 1 },
  judges: judges(),
  ...over,
});

type Handle = Awaited<ReturnType<typeof world.start>>;
const tripped = (handle: Handle) =>
  expect.poll(async () => (await handle.query<TrainStatus | SweepStatus>('status')).tripped, { timeout: 30_000 });
const spentOf = async (run: string) => {
  const tally = new SpendingTally();
  for (const event of await world.store.events(run)) tally.add(event);
  return tally.by;
};
const outcomes = async (prefix: string) =>
  (await world.store.list<OutcomeRecord>(keys.outcome(prefix))).map(({ value }) => value.status);

it('a judge that is down pauses the run and masks nothing; when it is up, resume completes the run', async () => {
  judge.handler = () => ({ status: 503, body: {} });
  const handle = await world.start('train', 'train/down', runOf({ breaker: { maxConsecutiveFailures: 0 } }));
  await tripped(handle).toMatchObject({ failure: 'judge-unavailable' });
  expect(await outcomes('train/down/')).toEqual([]);
  judge.handler = () => answer('1');
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 1 });
  expect(await outcomes('train/down/')).toEqual(['graded', 'graded', 'graded', 'graded']);
});

it('a spent budget pauses the run before the next call; a higher one and resume complete it, no call counted twice', async () => {
  const handle = await world.start('train', 'train/spent', runOf({ budget: { tokens: 150 } }));
  await tripped(handle).toMatchObject({
    failure: 'budget-spent',
    message: expect.stringContaining('npx longhaul set spent budget.tokens=300') as string,
  });
  const before = questions().length;
  // Without a higher budget it pauses again, and asks nothing.
  await handle.signal('resume');
  await tripped(handle).toMatchObject({ failure: 'budget-spent' });
  expect(questions().length).toBe(before);
  await handle.executeUpdate('configure', { args: [{ 'budget.tokens': 100_000 }] });
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 1 });
  const spent = await spentOf('spent');
  expect(spent.get('judge/strict')).toMatchObject({ calls: 4, prompt: 360, sampled: 40 });
  expect(spent.get('policy')?.calls).toBe(4);
  expect(questions().length).toBe(4);
  expect(new Set(await outcomes('train/spent/'))).toEqual(new Set(['graded']));
});

it('an eval pauses at a judge’s budget, takes a higher one while it is paused, and completes', async () => {
  const handle = await world.start('evalSweep', 'eval/spent', evalOf({ judges: judges({ budget: { tokens: 100 } }) }));
  await tripped(handle).toMatchObject({
    failure: 'budget-spent',
    message: expect.stringContaining('set eval/spent judges.strict.budget.tokens=200') as string,
  });
  await expect(handle.executeUpdate('configure', { args: [{ steps: 3 }] })).rejects.toThrow();
  await handle.executeUpdate('configure', { args: [{ 'judges.strict.budget.tokens': 1000 }] });
  await handle.signal('resume');
  const { cells } = (await handle.result()) as SweepResult;
  expect(cells[0]).toMatchObject({ graded: 3, meanReward: { mean: 1 } });
  expect(questions().length).toBe(3);
});

it('a run pauses at the hours of a judge, and more of them and resume complete it, nothing asked twice', async () => {
  judge.handler = async () => {
    await setTimeout(20);
    return answer('1');
  };
  // The run's own hours are no limit on the time of calls.
  const limits = { budget: { hours: 1 }, judges: judges({ budget: { hours: 1e-6 } }) };
  const handle = await world.start('train', 'train/judge-hours', runOf(limits));
  await tripped(handle).toMatchObject({
    failure: 'budget-spent',
    message: expect.stringContaining('set judge-hours judges.strict.budget.hours=0.000002') as string,
  });
  await handle.executeUpdate('configure', { args: [{ 'judges.strict.budget.hours': 1 }] });
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 1 });
  expect(questions().length).toBe(4);
  expect(new Set(await outcomes('train/judge-hours/'))).toEqual(new Set(['graded']));
});

it('the hours of a run end as well, and do not run while it is paused', async () => {
  const handle = await world.start('train', 'train/hours', runOf({ budget: { hours: 1e-9 } }));
  await tripped(handle).toMatchObject({ failure: 'budget-spent', work: 'hours' });
  const { workedSeconds } = await handle.query<TrainStatus>('status');
  await handle.executeUpdate('configure', { args: [{ 'budget.hours': 1 }] });
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 1 });
  expect(workedSeconds).toBeLessThan(60);
});

it('a key that cannot work is refused before the first rollout', async () => {
  judge.handler = () => ({ status: 401, body: { error: { message: 'no such key' } } });
  const handle = await world.start('train', 'train/refused', runOf());
  const failure: unknown = await handle.result().catch((error: unknown) => error);
  expect(inspect(failure)).toContain('judges.strict.endpoint.apiKeyEnv');
  expect(await world.store.events('refused')).toEqual([]);
});

it('a single rollout ends when it has sampled as many tokens as it may, and is graded', async () => {
  // Its answers, of three tokens, are cut as the sampling asks.
  engine.generate = async ({ sampling }) =>
    await Promise.resolve(sampling.maxTokens < 3 ? saying('it'.slice(0, sampling.maxTokens), 'length') : saying('it'));
  const agent = { maxSampledTokens: 2 };
  const policy = { uri: `file://${join(world.dir, 'policy')}`, version: 0 };
  const handle = await world.start('rollout', 'few', { task: 'judged-train-0', policy, agent, judges: judges() });
  expect((await handle.result()) as RolloutResult).toMatchObject({
    status: 'graded',
    finish: 'token-budget',
    reward: 1,
  });
});
