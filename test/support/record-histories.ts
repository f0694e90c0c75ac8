/**
 * Records the golden histories anew, or those that are named: `node test/support/record-histories.ts [NAME...]`. What
 * is there only after a change of workflow code that is meant to be incompatible: everything else must replay it.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { ApplicationFailure } from '@temporalio/common';
import { play, policy, record, restart, rollout, save, start, stop, until, world } from './history-recorder.ts';
import { restoreFailed, sandboxLost } from './scripted-activities.ts';

let lost = false;
let failures = 0;
await record('rollout-happy', {});
await record('rollout-hints-to-the-last-turn', { turn: () => 'reply' });
await record('rollout-of-sub-agents', {
  turn: ({ turn }) => (['delegate', 'act', 'delegate', 'answer', 'finish', 'act'] as const)[turn - 1] ?? 'finish',
});
await record('rollout-with-summary', {
  turn: ({ turn }) => (['act', 'summarise', 'act'] as const)[turn - 1] ?? 'finish',
});
await record('rollout-sandbox-lost', {
  before: (a) => {
    if (a === 'agentRun' && !lost) {
      lost = true;
      throw sandboxLost();
    }
  },
});
lost = false;
await record('rollout-restored-and-restarted', {
  before: (a, { turn }) => {
    if (a === 'agentRun' && turn === 2 && !lost) {
      lost = true;
      throw sandboxLost();
    }
    if (a === 'restoreSandbox') throw restoreFailed();
  },
});
await record('rollout-activity-retried', {
  before: (a) => {
    if (a === 'generate' && failures++ < 2) throw new Error('engine busy');
  },
});
await record('rollout-failed', {
  before: (a) => {
    if (a === 'agentRun') throw sandboxLost();
  },
});
await record(
  'rollout-cancelled',
  {
    before: async (a) => {
      if (a === 'agentRun') await sleep(500);
    },
  },
  async (handle) => {
    await sleep(300);
    await handle.cancel();
  },
);
const program = { timeoutSeconds: 60, tokens: false } as const;
await record(
  'rollout-external',
  { ttlSeconds: () => 3, card: () => ({ program: { runs: 'elsewhere', ...program } }) },
  async (handle) => {
    while ((await handle.query<{ phase: string }>('state')).phase !== 'wait') await sleep(50);
    const report = (turn: number) =>
      handle.executeUpdate('reportTurn', {
        args: [{ attempt: 1, turn, messages: [{ role: 'assistant', content: `${turn}` }] }],
      });
    await Promise.all([report(2), report(1), report(1)]);
    await sleep(1500);
    await handle.signal('pause');
    const third = report(3);
    await sleep(500);
    await handle.signal('resume');
    await third;
    await handle.executeUpdate('reportEnd', { args: [{ attempt: 1, turns: 3, answer: '42' }] });
  },
);
await record('rollout-program-in-the-sandbox', { card: () => ({ program: { runs: 'sandbox', ...program } }) });
await record('rollout-paused', {}, async (handle) => {
  await handle.signal('pause');
  await sleep(500);
  await handle.signal('resume');
});
await record(
  'rollout-paused-with-a-sandbox',
  {
    ttlSeconds: () => 3,
    before: async (a, { turn }) => {
      if (a === 'agentRun' && turn === 1) await sleep(500);
    },
  },
  async (handle) => {
    await sleep(300);
    await handle.signal('pause');
    await sleep(2500);
    await handle.signal('resume');
  },
);
play({ turn: ({ turn }) => (turn < 25 ? 'act' : 'finish') });
const long = await rollout('rollout-continued');
await long.result();
await save('rollout-continued', 'rollout-continued', long.firstExecutionRunId);
await save('rollout-continuing', 'rollout-continued');
play({
  turn: ({ turn }) => (turn < 6 ? 'act' : 'finish'),
  before: async (a) => {
    if (a === 'generate') await sleep(50);
  },
});
const paused = await start('batch', 'train/golden/paused', {
  run: 'golden',
  name: 'paused',
  step: 1,
  tasks: ['t-train-0', 't-train-1'],
  samples: 2,
  policy,
  agent: { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher: { type: 'bounded', maxParallelAgents: 3 },
});
await sleep(400);
await paused.signal('pause');
await sleep(1000);
await paused.signal('resume');
await paused.result();
await save('batch-paused', 'train/golden/paused');
play({});
const config = {
  run: 'golden',
  policy: { base: '/p' },
  task: { name: 't', train: 4 },
  steps: 2,
  batch: { tasks: 2, samples: 2 },
  evaluation: { tasks: 2 },
  dispatcher: { maxParallelAgents: 2, maxEvalParallelAgents: 1 },
};
const training = await start('train', 'train/golden', config);
await training.executeUpdate('configure', { args: [{ learningRate: 0.001 }] });
await training.result();
await save('train', 'train/golden');
const steered = await start('train', 'train/steered', { ...config, run: 'steered' });
await steered.signal('pause');
await steered.executeUpdate('configure', { args: [{ learningRate: 0.002, maxParallelAgents: 2 }] });
await sleep(500);
await steered.signal('resume');
await steered.result();
await save('train-steered', 'train/steered');
let asked = 0;
let alike = true;
play({
  before: (a, { rollout: id }) => {
    if (a === 'generate' && alike && id?.includes('/step-1/')) {
      asked += 1;
      throw ApplicationFailure.nonRetryable('refused', 'EndpointUnavailable');
    }
  },
});
const broken = await start('train', 'train/broken', {
  ...config,
  run: 'broken',
  steps: 1,
  batch: { tasks: 3, samples: 2 },
  dispatcher: { type: 'bounded', maxParallelAgents: 1 },
  breaker: { maxConsecutiveFailures: 2 },
});
while (asked < 2) await sleep(50);
await sleep(1500);
alike = false;
await broken.signal('resume');
await broken.result();
await save('train-broken', 'train/broken');
play({});
await save('batch-gated', 'train/golden/step-1');
const gated = world.log.calls.find((call) => call.rollout.startsWith('train/golden/step-1/'));
await save('rollout-gated', gated?.rollout ?? '');
const overlapping = await start('train', 'train/overlapping', {
  ...config,
  run: 'overlapping',
  steps: 3,
  training: { mode: 'async', maxStalenessSteps: 1 },
  dispatcher: { type: 'bounded', maxParallelAgents: 6 },
});
await overlapping.signal('pause');
await sleep(300);
await overlapping.signal('resume');
await overlapping.result();
await save('train-async', 'train/overlapping');
await save('batch-of-async-run', 'train/overlapping/group-1');
const agent = { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 };
const sweep = await start('evalSweep', 'eval/golden', { agent, dispatcher: { type: 'bounded', maxParallelAgents: 3 } });
await sweep.result();
await save('eval-sweep', 'eval/golden');
await record('rollout-tool-failed', {
  before: (a) => {
    if (a === 'agentRun') throw ApplicationFailure.nonRetryable('the tool broke', 'ToolFailed');
  },
});
const batchOf = (name: string, over: object) => ({
  run: 'golden',
  name,
  step: 1,
  tasks: ['t-train-0', 't-train-1'],
  samples: 4,
  policy,
  agent,
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher: { type: 'pipeline', maxParallelAgents: 2 },
  ...over,
});
play({ turn: () => 'finish' });
const nothing = { waiting: [], init: [], ready: [], 'agent-run': [], collected: [], reward: [] };
const growing = await start('batch', 'train/golden/continued', batchOf('continued', { samples: 8 }), {
  begunAt: Date.now(),
  started: 0,
  paused: false,
  resumed: 0,
  stoodMs: 0,
  watch: { breaker: { last: [], isOpen: false }, ends: [] },
  sampling: { begun: 0, ended: 0, varied: 0 },
  places: nothing,
  ledger: { ended: 0, graded: 0, passed: 0, rewardSum: 0, failures: {}, groups: [] },
  admitted: [],
  givenUp: [],
});
await growing.result();
await save('batch-continued', 'train/golden/continued', growing.firstExecutionRunId);
await save('batch-continuing', 'train/golden/continued');
const reporting = world.log.calls.findLast((call) => call.rollout.startsWith('train/golden/continued/'));
await save('rollout-reporting', reporting?.rollout ?? '');
let late = true;
const slow =
  (id: string) =>
  async (a: string, { rollout: which }: { rollout?: string }) => {
    while (late && a === 'agentRun' && which?.endsWith(id)) await sleep(50);
  };
play({ before: slow('t-train-1/3') });
const without = await start(
  'batch',
  'train/golden/stragglers',
  batchOf('stragglers', { stragglers: { completeGroupWithout: 1, deadlineSeconds: 600 } }),
);
await without.result();
late = false;
await save('batch-stragglers', 'train/golden/stragglers');
late = true;
play({ before: slow('') });
const ending = await start('batch', 'train/golden/cancelled', batchOf('cancelled', {}));
await sleep(1500);
await ending.cancel();
await ending.result().catch(() => undefined);
late = false;
await save('batch-cancelled', 'train/golden/cancelled');
play({
  turn: () => 'finish',
  before: async (a, { rollout: which }) => {
    if (a === 'computeReward' && which?.endsWith('/0'))
      throw ApplicationFailure.nonRetryable('no such task', 'UserInputError');
    while (a === 'computeReward' && !world.log.calls.some(({ activity }) => activity === 'recordFailures'))
      await sleep(50);
  },
});
world.log.calls.length = 0;
const failing = await start('batch', 'train/golden/failing', batchOf('failing', { dispatcher: { type: 'batch' } }));
await failing.result();
await save('batch-failures-as-heard', 'train/golden/failing');
let updates = 0;
play({
  before: (a) => {
    if (a === 'update' && updates++ < 2) throw new Error('out of memory');
  },
});
const retried = await start('train', 'train/retried', { ...config, run: 'retried', steps: 1 });
await retried.result();
await save('train-update-retried', 'train/retried');
play({ turn: () => 'finish' });
const evaluated = await start('train', 'train/evaluated', { ...config, run: 'evaluated', steps: 1 });
await evaluated.result();
await save('train-evaluated-batch-by-batch', 'train/evaluated');
let shards = 0;
play({
  before: (a) => {
    if (a === 'forwardBackward' && shards++ === 1) throw new Error('its worker died');
  },
});
const sharded = await start('train', 'train/sharded', {
  ...config,
  run: 'sharded',
  steps: 1,
  training: { shards: 2, placement: 'colocated' },
});
await sharded.result();
await save('train-shards', 'train/sharded');
// Nobody serves that worker's queue: the turns after the first time out there, and fall back.
await record('rollout-worker-gone', { worker: ({ turn }) => (turn === 1 ? 'gone' : undefined) });
late = true;
play({ before: slow('') });
const stopped = await start('train', 'train/stopped', { ...config, run: 'stopped' });
await sleep(1500);
await stopped.cancel();
await stopped.result().catch(() => undefined);
late = false;
await save('train-cancelled', 'train/stopped');
play({
  ran: () => 900,
  before: async (a) => {
    if (a === 'agentRun') await sleep(1200);
  },
});
const overdue = await start('rollout', 'rollout-graded-at-deadline', {
  task: 't-train-0',
  policy,
  agent: { deadlineSeconds: 1 },
});
await overdue.result();
await save('rollout-graded-at-deadline', 'rollout-graded-at-deadline');
late = true;
play({ before: slow('t-train-0/0') });
const bereft = await start(
  'batch',
  'train/golden/bereft',
  batchOf('bereft', { tasks: ['t-train-0'], samples: 2, dispatcher: { type: 'batch' } }),
);
await until('agentRun', 'bereft/t-train-0/0');
await world.client.workflow.getHandle('train/golden/bereft/t-train-0/0').terminate('by hand');
await bereft.result();
late = false;
await save('batch-rollout-terminated', 'train/golden/bereft');
late = true;
play({ before: slow('group-1/t-train-0/0') });
const heard = await start('train', 'train/heard', {
  ...config,
  run: 'heard',
  steps: 1,
  task: { name: 't', train: 1 },
  batch: { tasks: 1, samples: 2 },
  training: { mode: 'async', maxStalenessSteps: 1 },
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 2 },
});
await until('agentRun', 'heard/group-1/t-train-0/0');
await world.client.workflow.getHandle('train/heard/group-1').terminate('by hand');
while ((await heard.query<TrainStatus>('status')).tripped === undefined) await sleep(50);
late = false;
await heard.signal('resume');
await heard.result();
await save('train-group-terminated', 'train/heard');
// So that a batch of twelve rollouts turns long.
await restart(40);
play({ turn: () => 'finish' });
const turning = await start(
  'batch',
  'train/golden/turning',
  batchOf('turning', { samples: 6, dispatcher: { type: 'bounded', maxParallelAgents: 2 } }),
);
await turning.result();
await save('batch-turned-long', 'train/golden/turning', turning.firstExecutionRunId);
await stop();
