/**
 * Hunts a run that was cancelled or failed, was started again, and is still reported as ended; and rollouts that are
 * counted for the execution that left them unfinished. Not asserted here: that workflows report which execution they
 * are (test/workflows/training/restart.test.ts), and real rollouts (test/e2e/steering.test.ts).
 */
import { taskKey } from '../../../protocol/task-key.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { keys } from '../../../protocol/record-keys.ts';
import { eventsOfRun, recordEnds } from '../../../reports/rollout-ends.ts';
import { type RunSummary, summaryOf } from '../../../reports/run-summary.ts';
import { accountFor } from '../../../reports/accounting.ts';
import { attemptOf, eventLines, orchestratorActivities, RUN, useWorld } from '../world.ts';

const world = useWorld();
const temporal = { address: 'a', namespace: 'n', ui: 'u' };
const base = () => join(world.now.dir, 'policy');
const folder = () => ({ run: RUN, runDir: join(world.now.dir, 'runs', RUN) });
const config = () => ({
  run: RUN,
  dir: join(world.now.dir, 'runs'),
  policy: { base: base() },
  task: { name: 'toy', train: 10 },
});

function activities() {
  return orchestratorActivities({
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    temporal,
    describePolicy: async () => ({ parameters: 1, vocabulary: 2 }),
  });
}
const open = (execution: string) => activities().openRun(config(), RUN, execution);
const close = (execution: string, status: 'completed' | 'failed' | 'cancelled', message = '') =>
  activities().closeRun({ ...folder(), status, message, execution });
const dispatch = (step: number, samples = 2) =>
  activities().recordDispatched({
    run: RUN,
    name: `step-${step}`,
    batch: `train/${RUN}/step-${step}`,
    tasks: [taskKey('toy', 'train', 0)],
    samples,
  });
const rollout = (k: number) => attemptOf(0, k).rollout;
const train = (...samples: number[]) =>
  recordEnds(
    world.now.store,
    samples.map((k) => ({
      run: RUN,
      rollout: rollout(k),
      attempt: 1,
      event: 'trained',
      at: new Date().toISOString(),
      detail: 'v1',
    })),
  );

const file = () => JSON.parse(readFileSync(join(folder().runDir, 'summary.json'), 'utf8')) as RunSummary;
const none = { dispatched: 0, trained: 0, masked: 0, dropped: 0, evaluated: 0, duplicated: 0, lost: 0 };

/** The ends as a reader of the exported events counts them: one per rollout. */
async function fromOutside() {
  const events = await eventsOfRun(RUN, world.now.store);
  const ends = events.filter(({ event }) => ['trained', 'masked', 'dropped', 'evaluated'].includes(event));
  expect(new Set(ends.map((end) => end.rollout)).size).toBe(ends.length);
  return accountFor(events, true);
}

beforeEach(() => {
  mkdirSync(base());
  for (const name of ['config.json', 'tokenizer.json']) writeFileSync(join(base(), name), '{}');
});

it.each(['cancelled', 'failed'] as const)(
  'that had been %s is reported as running, and its unfinished rollouts are trained on',
  async (status) => {
    await open('first');
    await dispatch(1);
    await close('first', status, 'why');
    const masked = { ...none, dispatched: 2, masked: 2 };
    expect(file()).toMatchObject({ status, message: 'why', accounting: masked });
    expect(await fromOutside()).toEqual(masked);
    const { finishedAt } = file();
    const said = (await eventsOfRun(RUN, world.now.store)).slice(-2);
    expect(said).toEqual(
      [0, 1].map((k) => ({
        run: RUN,
        rollout: rollout(k),
        attempt: 1,
        event: 'masked',
        at: finishedAt,
        detail: `run-${status}`,
      })),
    );

    await open('second');
    expect(file()).toMatchObject({ status: 'running', finishedAt: null, accounting: { ...none, dispatched: 2 } });
    expect(file()).not.toHaveProperty('message');
    await dispatch(1);
    await train(0, 1);
    await close('second', 'completed');
    const trained = { ...none, dispatched: 2, trained: 2 };
    expect(file()).toMatchObject({ status: 'completed', accounting: trained });
    expect(file().finishedAt! >= finishedAt!).toBe(true);
    expect(await fromOutside()).toEqual(trained);
    expect(await eventLines(world.now.store)).toEqual(['dispatched', 'dispatched', 'trained v1', 'trained v1']);
  },
);

it('continues as often as it is stopped, and its last end counts', async () => {
  await open('1');
  await dispatch(1, 3);
  for (let i = 1; i <= 11; i += 1) {
    await close(`${i}`, 'cancelled');
    expect([file().status, await fromOutside()]).toEqual(['cancelled', { ...none, dispatched: 3, masked: 3 }]);
    await open(`${i + 1}`);
    expect(file().status).toBe('running');
  }
  await train(0);
  await close('12', 'failed', 'the last word');
  expect(file()).toMatchObject({
    status: 'failed',
    message: 'the last word',
    accounting: { dispatched: 3, trained: 1, masked: 2 },
  });
  expect(await fromOutside()).toEqual({ ...none, dispatched: 3, trained: 1, masked: 2 });
});

/** Why: a worker that was frozen for a minute is given up, and then continues its work. */
it('is neither started again nor ended by an activity that is retried or late', async () => {
  await open('first');
  await open('first');
  await close('first', 'cancelled', 'said first');
  await close('first', 'failed', 'said later');
  await open('first');
  expect(file()).toMatchObject({ status: 'cancelled', message: 'said first' });
  await open('second');
  await open('second');
  await close('first', 'cancelled');
  expect(file().status).toBe('running');
  await close('second', 'cancelled');
  await open('second');
  expect((await summaryOf(RUN, world.now.store, temporal))?.status).toBe('cancelled');
});

it('that was killed between its record and its files writes them when it is retried', async () => {
  await open('first');
  await close('first', 'cancelled');
  await world.now.store.putOnce(keys.runAgain(RUN, 1), { at: new Date().toISOString(), execution: 'second' });
  expect(file().status).toBe('cancelled');
  await open('second');
  expect(file().status).toBe('running');
});

it('that was reset to before its end has its new end', async () => {
  await open('first');
  await close('first', 'failed');
  await close('reset', 'completed');
  expect(file().status).toBe('completed');
});

it('stays completed when it is started again', async () => {
  await open('first');
  await close('first', 'completed');
  await open('second');
  expect(file().status).toBe('completed');
  await close('second', 'cancelled');
  expect(file().status).toBe('completed');
});

it('drops unneeded rollouts from before its restart, and loses unfinished ones since', async () => {
  await open('first');
  await dispatch(1);
  await close('first', 'cancelled');
  await new Promise((resolve) => setTimeout(resolve, 5));
  await open('second');
  await dispatch(2, 1);
  await train(0);
  await close('second', 'completed');
  expect(file().accounting).toEqual({ ...none, dispatched: 3, trained: 1, dropped: 1, lost: 1 });
  expect(await eventLines(world.now.store, 'dropped')).toEqual(['dropped run-completed']);
});

it('leaves the ends of runs whose names have the same prefix', async () => {
  await open('first');
  await close('first', 'cancelled');
  await world.now.store.putOnce(keys.runEnd(`${RUN}-2`), { status: 'failed', finishedAt: '', message: 'of another' });
  await open('second');
  expect(file().status).toBe('running');
});
