/**
 * Hunts a run of weeks that ends because a disk was full for an hour: an update, a record or a batch that failed on all
 * its attempts pauses the run, and is repeated, once, when the run is resumed. The server is real, activities are
 * scripted; what such an update writes is in `held-update.test.ts`.
 */
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { liveLines } from '../../../cli/train/format.ts';
import { inCode } from '../../../workflows/details.ts';
import { FAILURES } from '../../../protocol/failure-policy.ts';
import type { TrainingSettings } from '../../../protocol/run-config.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import type { UpdateInput } from '../../../protocol/update.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const failing = (type: string, message: string) => ApplicationFailure.create({ type, message, nextRetryDelay: '20ms' });
const finish = () => 'finish' as const;
const none = { started: 0, ended: 0, total: 0, passed: 0, failed: 0 };
const configOf = (run: string, training: TrainingSettings, over: object = {}) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 20 },
  steps: 2,
  batch: { tasks: 2, samples: 2 },
  training,
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 8 },
  ...over,
});
const details = (id: string) => world.details(id);

/** Starts a run, waits until it is paused for `work`, fixes what failed, and returns the run's result. */
async function heldAndResumed(config: { readonly run: string }, work: string, mend: () => void) {
  const handle = await world.start('train', `train/${config.run}`, config);
  const status = () => handle.query<TrainStatus>('status');
  await expect.poll(async () => (await status()).tripped?.work).toBe(work);
  const paused = await status();
  expect(paused).toMatchObject({ phase: 'paused', pauseAt: 'turn' });
  const shown = await details(`train/${config.run}`);
  mend();
  await handle.signal('resume');
  return { paused, shown, result: (await handle.result()) as unknown, after: await details(`train/${config.run}`) };
}

it.each(['sync', 'one-step-off', 'async'] as const)(
  'an update that failed on all its attempts pauses a run (%s), shows why, and is made again once when it is resumed',
  async (mode) => {
    let full = true;
    let tries = 0;
    const trained: UpdateInput[] = [];
    world.script = {
      turn: finish,
      before: (activity) => {
        if (activity !== 'update' || !full) return;
        tries += 1;
        throw failing('StoreFull', 'No space is left at /runs');
      },
      update: (input) => void trained.push(input),
    };
    const config = configOf(`held-${mode}`, { mode });
    const { paused, shown, result, after } = await heldAndResumed(
      config,
      'the update of step 1',
      () => void (full = false),
    );
    const line = `paused: the update of step 1 failed as store-unavailable on all its tries (No space is left at /runs); ${FAILURES['store-unavailable'].remedy}; then \`npx longhaul resume held-${mode}\` retries it`;
    expect(paused.tripped).toEqual({
      failure: 'store-unavailable',
      failed: 1,
      of: 1,
      message: 'No space is left at /runs',
      work: 'the update of step 1',
    });
    expect([shown, liveLines(paused, none)[0]]).toEqual([inCode(line), line]);
    expect(tries).toBe(8);
    expect(result).toMatchObject({ steps: 2, policy: { version: 2 } });
    expect(trained.map(({ step }) => step)).toEqual([1, 2]);
    const batches = trained.flatMap((update) => update.batches);
    expect(new Set(batches).size).toBe(mode === 'async' ? 4 : 2);
    expect(after).not.toContain('paused');
  },
);

it('a part of an update in shards pauses its run like the whole, and what takes its files away each time', async () => {
  let broken = '';
  world.script = {
    turn: finish,
    rounds: () => [2],
    before: (activity) => {
      if (activity !== broken) return;
      throw activity === 'optimStep'
        ? ApplicationFailure.nonRetryable('it was cleared away', 'PlanLost')
        : failing('EngineLost', 'gone');
    },
  };
  for (const activity of ['planUpdate', 'forwardBackward', 'optimStep']) {
    broken = activity;
    const { result } = await heldAndResumed(
      configOf(`part-${activity}`, { mode: 'sync', shards: 2 }, { steps: 1 }),
      'the update of step 1',
      () => void (broken = ''),
    );
    expect(result).toMatchObject({ steps: 1 });
  }
});

it.each([
  ['update', 'the update of step 1'],
  ['recordStep', 'the record of step 1'],
])(
  '%s that needs a damaged record pauses its run at once, names it, and is made when the store is restored',
  async (activity, work) => {
    let damaged = true;
    let tries = 0;
    const message =
      'The store at /home/store is damaged (the record generate:train/r/step-1/t/0#1/00002 is not what was written)';
    world.script = {
      turn: finish,
      before: (name) => {
        if (name !== activity || !damaged) return;
        tries += 1;
        throw ApplicationFailure.nonRetryable(message, 'StoreCorrupt');
      },
    };
    const { paused, shown, result } = await heldAndResumed(
      configOf(`damaged-${activity}`, { mode: 'sync' }, { steps: 1 }),
      work,
      () => void (damaged = false),
    );
    expect([tries, paused.tripped]).toEqual([1, { failure: 'store-damaged', failed: 1, of: 1, message, work }]);
    expect(shown).toContain(FAILURES['store-damaged'].remedy);
    expect(result).toMatchObject({ steps: 1 });
  },
);

it.each([
  [
    'a setting or a loss that it cannot be made with',
    ApplicationFailure.nonRetryable('rollout_is needs log-probabilities', 'LossRefused'),
  ],
  ['code of the user that throws', ApplicationFailure.nonRetryable('loss mine threw TypeError: x', 'OwnCodeFailed')],
])('an update that fails for %s ends the run with its message', async (_, error) => {
  world.script = {
    turn: finish,
    before: (activity) => {
      if (activity === 'update') throw error;
    },
  };
  const run = `refused-${error.type}`;
  await expect(
    (await world.start('train', `train/${run}`, configOf(run, { mode: 'sync' }))).result(),
  ).rejects.toMatchObject({ cause: { message: error.message } });
  expect(world.count('update')).toBe(1);
  expect(world.now.log.calls.filter(({ activity }) => activity === 'closeRun').map(({ rollout }) => rollout)).toEqual([
    'failed',
  ]);
});

it('a run without a breaker ends where it would be paused', async () => {
  world.script = {
    turn: finish,
    before: (activity) => {
      if (activity === 'update') throw failing('EngineLost', 'gone');
    },
  };
  await expect(
    (
      await world.start(
        'train',
        'train/unbroken',
        configOf('unbroken', { mode: 'sync' }, { breaker: { maxConsecutiveFailures: 0 } }),
      )
    ).result(),
  ).rejects.toMatchObject({ cause: { message: 'gone' } });
});

it('a run that is cancelled while it waits before an update ends as cancelled', async () => {
  world.script = {
    turn: finish,
    before: (activity) => {
      if (activity === 'update') throw failing('EngineLost', 'gone');
    },
  };
  const handle = await world.start('train', 'train/given-up', configOf('given-up', { mode: 'sync' }));
  await expect.poll(async () => (await handle.query<TrainStatus>('status')).tripped?.failure).toBe('engine-lost');
  await handle.cancel();
  await expect(handle.result()).rejects.toThrow(/cancelled/iu);
  expect(world.now.log.calls.filter(({ activity }) => activity === 'closeRun').map(({ rollout }) => rollout)).toEqual([
    'cancelled',
  ]);
});

it.each([
  ['summariseEvaluation', 'the record of the evaluation after step 0'],
  ['recordStep', 'the record of step 1'],
  ['closeRun', 'the record of its end'],
])('%s that is not made within its day pauses the run', async (activity, work) => {
  let slow = true;
  // Its day ends with its only attempt: a final refusal would be a fault of the code.
  world.script = {
    turn: finish,
    before: (name) => {
      if (name === activity && slow)
        throw ApplicationFailure.create({ type: 'StoreFull', message: 'full', nextRetryDelay: '25h' });
    },
  };
  const { result } = await heldAndResumed(
    configOf(`late-${activity}`, { mode: 'sync' }, { steps: 1 }),
    work,
    () => void (slow = false),
  );
  expect(result).toMatchObject({ steps: 1 });
});

it.each([
  ['sync', 'step-1', 'terminate'],
  ['sync', 'step-1', 'cancel'],
  ['sync', 'eval-0-sampled', 'cancel'],
  ['one-step-off', 'step-1', 'terminate'],
  ['async', 'group-2', 'terminate'],
  ['async', 'group-2', 'cancel'],
] as const)(
  'a run (%s) whose %s somebody ends by hand (%s) pauses, and rolls it out again when it is resumed',
  async (mode, name, how) => {
    let held = true;
    const trained: UpdateInput[] = [];
    const manifests = new Map<string, readonly string[]>();
    world.script = {
      turn: finish,
      before: async (activity, { rollout = '' }) => {
        while (held && activity === 'generate' && rollout.includes(`/${name}/`)) await sleep(50);
      },
      update: (input) => void trained.push(input),
      batch: (input) => void manifests.set(input.batch, input.tasks),
    };
    const config = configOf(`ended-${mode}-${name}-${how}`, { mode });
    const handle = await world.start('train', `train/${config.run}`, config);
    await expect
      .poll(() =>
        world.now.log.calls.some(({ activity, rollout }) => activity === 'generate' && rollout.includes(`/${name}/`)),
      )
      .toBe(true);
    await world.now.client.workflow.getHandle(`train/${config.run}/${name}`)[how]();
    const status = () => handle.query<TrainStatus>('status');
    await expect
      .poll(async () => (await status()).tripped)
      .toMatchObject({ failure: 'cancelled', work: `the batch ${name}` });
    expect(liveLines(await status(), none)[0]).toMatch(
      /^paused: the batch \S+ was ended by hand \(.*\); `npx longhaul resume (ended-\S+)` starts it again, `npx longhaul cancel \1` ends the run$/,
    );
    held = false;
    await handle.signal('resume');
    expect(await handle.result()).toMatchObject({ steps: 2 });
    expect(trained.map(({ step }) => step)).toEqual([1, 2]);
    const batches = trained.flatMap((update) => update.batches);
    expect(new Set(batches).size).toBe(mode === 'async' ? 4 : 2);
    expect(batches.every((one) => manifests.get(one) !== undefined)).toBe(true);
  },
);
