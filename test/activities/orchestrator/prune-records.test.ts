/**
 * Hunts records that are deleted although something still needs them: trajectories of pruned rollouts, an object that
 * another run names, a restarted run without its turns. Real rollouts are pruned in test/e2e/training-run.test.ts.
 */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, it } from 'vitest';
import { generateTurn } from '../../../activities/generate/generate.ts';
import type { ActRecord, RunAgain } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { type Prunable, prunable, pruneRecords } from '../../../activities/orchestrator/prune-records.ts';
import { evalKeys } from '../../../reports/evaluation/eval-records.ts';
import { sqliteUrl } from '../../../store/open-store.ts';
import { trajectoryOf } from '../../../reports/trajectories.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';
import { call, finishCall, saying } from '../scripted-parts.ts';
import { attemptOf, dyingAt, ended, orchestratorActivities, RUN, turnInput, useWorld } from '../world.ts';

const world = useWorld();
const { rollout } = attemptOf();
const base = () => join(world.now.dir, 'policy');
const config = () => ({
  run: RUN,
  dir: join(world.now.dir, 'runs'),
  policy: { base: base() },
  task: { name: 'toy', train: 10 },
});
const options = { dryRun: false, note: () => undefined, signal: new AbortController().signal, shrink: true };
const artifact = new TextEncoder().encode('the same work of two runs');

function activities() {
  const temporal = { address: 'a', namespace: 'n', ui: 'u' };
  return orchestratorActivities({
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    temporal,
    describePolicy: async () => ({ parameters: 1, vocabulary: 2 }),
  });
}

const prune = (store: Store = world.now.store, name = RUN, over = {}) =>
  prunable(name, store).then((one) =>
    pruneRecords([one as Prunable], sqliteUrl(join(world.now.dir, 'store')), store, { ...options, ...over }),
  );

/** Three turns, the last of which ends the rollout, with all records and executions of the work. */
async function putManifest(): Promise<void> {
  const { store, engine, deps } = world.now;
  engine.answers = [call('ls'), 'I think so.', finishCall].map((text) => saying(text));
  for (const turn of [1, 2, 3]) {
    await generateTurn(turnInput(turn), deps, options.signal);
    if (turn !== 2)
      await store.putOnce<ActRecord>(keys.act(turnInput(turn), turn), {
        messages: [{ role: 'tool', name: 'bash', content: `answer ${turn}` }],
      });
    await store.putOnce(keys.answer(turnInput(turn), turn, 0), {
      role: 'tool',
      name: 'bash',
      content: `answer ${turn}`,
    });
  }
  for (const kind of ['init', 'start', 'tool', 'step', 'collect', 'reward']) await store.begin(`${kind}:${rollout}#1`);
  await store.putOnceWithObject(keys.collect(attemptOf()), artifact, (ref) => ({
    artifact: ref,
    bytes: artifact.length,
  }));
  await store.putOnce(keys.verdict(attemptOf()), { code: 'graded', reward: 1, passed: true, reason: '' });
  for (const [activityType, workflowId] of [
    ['generate', rollout],
    ['update', `train/${RUN}`],
  ] as const)
    await store.putOnce(
      keys.oneTry({ activityType, workflowExecution: { workflowId, runId: 'one' }, activityId: '7', attempt: 1 }),
      { end: 'failed' },
    );
  await ended(store, 0, 0, 1, 3);
}

const recordsOf = async (prefix: string) => (await world.now.store.list(prefix)).map(({ key }) => key);

beforeEach(async () => {
  mkdirSync(base());
  for (const name of ['config.json', 'tokenizer.json']) writeFileSync(join(base(), name), '{}');
  await activities().openRun(config(), RUN, 'first');
  await putManifest();
});

const close = (status: 'completed' | 'cancelled') =>
  activities().closeRun({ run: RUN, runDir: join(world.now.dir, 'runs', RUN), status, execution: 'first' });

it('leaves the trajectory as it was, and nothing that only the work read', async () => {
  await close('completed');
  const before = JSON.stringify(
    await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) }),
  );
  const { pruned, bytes, shrunk } = await prune();
  expect(
    JSON.stringify(await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) })),
  ).toBe(before);
  expect(pruned).toEqual([
    expect.objectContaining({ name: RUN, status: 'completed', rollouts: 1, results: 12, executions: 9, objects: 1 }),
  ]);
  expect(shrunk).toBe(true);
  expect(bytes.after).toBeLessThanOrEqual(bytes.before);
  for (const kind of ['generate', 'act', 'answer', 'collect', 'verdict', 'tries'])
    expect(await recordsOf(`${kind}:`)).toEqual([]);
  expect(await world.now.store.executions(0)).toEqual([]);
  expect(await recordsOf('outcome:')).toEqual([keys.outcome(rollout)]);
  expect((await prune()).pruned).toEqual([expect.objectContaining({ results: 0, executions: 0, objects: 0 })]);
});

it('may be killed at any moment, and is finished by the next call', async () => {
  await close('completed');
  const before = JSON.stringify(
    await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) }),
  );
  for (const [method, prefix] of [
    ['putOnce', 'pruned:'],
    ['putOnce', 'trajectory:'],
  ] as const) {
    await expect(prune(dyingAt(world.now.store, method, prefix))).rejects.toThrow('killed here');
    expect(await recordsOf('generate:')).toHaveLength(3);
  }
  await prune();
  expect(
    JSON.stringify(await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) })),
  ).toBe(before);
});

/** Why: an object is found by the record that names it; without the record no later call finds the object. */
it('may be killed after some rollouts have been pruned, and the next call takes their objects', async () => {
  const { store } = world.now;
  const { artifact: ref } = (await store.get<{ artifact: `sha256:${string}` }>(keys.collect(attemptOf())))!;
  const others = Array.from({ length: 50 }, (_, k) => attemptOf(1, k).rollout);
  for (const k of others.keys()) await ended(store, 1, k, 'internal');
  await close('completed');
  await expect(prune(dyingAt(store, 'putOnce', keys.trajectory(others.toSorted().at(-1)!)))).rejects.toThrow(
    'killed here',
  );
  expect(await recordsOf('generate:')).toEqual([]);
  expect((await prune()).pruned).toEqual([expect.objectContaining({ rollouts: 51, objects: 1 })]);
  expect(await recordsOf('collect:')).toEqual([]);
  await expect(store.getObject(ref)).rejects.toThrow('is missing');
});

it('is refused for a record that names another object than was written, before anything is changed', async () => {
  await close('completed');
  const db = new DatabaseSync(join(world.now.dir, 'store', 'store.sqlite'));
  db.exec("UPDATE results SET value = replace(value, 'sha256:', 'sha256:0') WHERE key LIKE 'collect:%'");
  db.close();
  await expect(prune()).rejects.toMatchObject({ name: 'StoreCorrupt' });
  expect(await recordsOf('generate:')).toHaveLength(3);
});

/** Why: with a changed digit in its key the last turn is not found, and the turns before it look complete. */
it('is refused for a rollout whose last turn cannot be found, and its other turns stay', async () => {
  await close('completed');
  const db = new DatabaseSync(join(world.now.dir, 'store', 'store.sqlite'));
  db.prepare('UPDATE results SET key = replace(key, ?, ?) WHERE key = ?').run(
    'toy-train-0',
    'toy-train-1',
    keys.generate(attemptOf(), 3),
  );
  db.close();
  const missing = {
    name: 'StoreCorrupt',
    message: expect.stringContaining(`${keys.generate(attemptOf(), 3)} is missing`),
  };
  await expect(
    trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) }),
  ).rejects.toMatchObject(missing);
  await expect(prune()).rejects.toMatchObject(missing);
  expect(await recordsOf(`generate:${rollout}`)).toHaveLength(2);
});

it('only counts in a dry run', async () => {
  await close('completed');
  const { pruned } = await prune(world.now.store, RUN, { dryRun: true });
  expect(pruned).toEqual([expect.objectContaining({ results: 12, executions: 9, objects: 1 })]);
  expect(await recordsOf('generate:')).toHaveLength(3);
  expect(await recordsOf('pruned:')).toEqual([]);
});

it('leaves what other runs have: records of a run whose name has the same prefix, and an object that both name', async () => {
  const { store } = world.now;
  const other = { rollout: `train/${RUN}-2/step-1/toy-train-0/0`, attempt: 1 };
  await store.putOnceWithObject(`collect:${other.rollout}#1`, artifact, (ref) => ({
    artifact: ref,
    bytes: artifact.length,
  }));
  await store.begin(`tool:${other.rollout}#1/1/0`);
  const kept = ['generate', 'update'].map((activityType) =>
    keys.oneTry({
      activityType,
      workflowExecution: { workflowId: activityType === 'update' ? `train/${RUN}-2` : other.rollout, runId: 'one' },
      activityId: '7',
      attempt: 1,
    }),
  );
  for (const key of kept) await store.putOnce(key, { end: 'failed' });
  await close('completed');
  expect((await prune()).pruned).toEqual([expect.objectContaining({ objects: 0 })]);
  expect(await recordsOf('collect:')).toEqual([`collect:${other.rollout}#1`]);
  expect((await recordsOf('tries:')).toSorted()).toEqual(kept.toSorted());
  const [{ value } = { value: undefined }] = await store.list<{ artifact: `sha256:${string}` }>('collect:');
  expect(await store.getObject(value!.artifact)).toEqual(artifact);
  expect(await store.executions(0)).toHaveLength(1);
});

it('is refused for a run that is started again, before anything is changed', async () => {
  await close('cancelled');
  await prune();
  await expect(activities().openRun(config(), RUN, 'second')).rejects.toMatchObject({
    type: 'UserInputError',
    message: expect.stringContaining('were pruned at'),
  });
  expect((await prunable(RUN, world.now.store))?.status).toBe('cancelled');
});

/** Why: a run that is started again between the check of its end and the mark would sample its turns again. */
it('gives way to a run that is started again at the same moment', async () => {
  await close('cancelled');
  const { store } = world.now;
  const racing = new Proxy(store, {
    get(target, name) {
      const real = Reflect.get(target, name) as (...given: unknown[]) => unknown;
      if (name !== 'putOnce') return (...given: unknown[]) => real.apply(target, given);
      return async (key: string, value: unknown) => {
        if (key.startsWith('pruned:'))
          await store.putOnce<RunAgain>(keys.runAgain(RUN, 1), { at: '', execution: 'second' });
        return store.putOnce(key, value);
      };
    },
  });
  await expect(prune(racing)).rejects.toThrow('it was started again just now');
  expect(await recordsOf('pruned:')).toEqual([]);
  expect(await recordsOf('generate:')).toHaveLength(3);
  await activities().openRun(config(), RUN, 'second');
});

/** Why: many runs often have the same artifact, and one may record it while another run is pruned. */
it('never deletes an object that a record is just naming', async () => {
  await close('completed');
  const second = openSqliteStore(join(world.now.dir, 'store'));
  const [, kept] = await Promise.all([
    prune(),
    second.putOnceWithObject('collect:train/live/step-1/toy-train-0/0#1', artifact, (ref) => ({
      artifact: ref,
      bytes: artifact.length,
    })),
  ]);
  expect(await second.getObject(kept.artifact)).toEqual(artifact);
  await second.close();
});

/** Why: an eval has no `#` of its own after its rollouts' ids, and second gradings are named `ROLLOUT@NAME`. */
it('takes the second gradings of an eval with it', async () => {
  const { store } = world.now;
  const one = { ...attemptOf(), rollout: 'eval/mine/starter/once/toy-train-0/0' };
  const graded = { code: 'graded', reward: 1, passed: true, reason: '' };
  const config = { tasks: { ids: [] }, sampling: [], bootstrap: { confidence: 0.95 }, seed: 1 };
  await store.putOnce(evalKeys.record('mine'), { config, policies: [], startedAt: '', evalDir: '' });
  await store.putOnce(evalKeys.end('mine', 0), { status: 'completed', finishedAt: 'then' });
  const second = { ...one, rollout: `${one.rollout}@today` };
  await store.putOnce(keys.outcome(one.rollout), {
    rollout: one.rollout,
    task: 'toy-train-0',
    attempt: 1,
    turns: 0,
    finish: 'answer',
    status: 'graded',
    reward: 1,
    at: '',
  });
  await store.putOnce(`again:${keys.verdict(second)}`, graded);
  await store.begin(`again:reward:${second.rollout}#1`);
  const kept = `again:${keys.verdict({ ...second, rollout: `${one.rollout}1@today` })}`;
  await store.putOnce(kept, graded);
  const { pruned } = await prune(store, 'eval/mine');
  expect(pruned).toEqual([expect.objectContaining({ rollouts: 1, results: 1, executions: 1 })]);
  expect(await recordsOf('again:')).toEqual([kept]);
});
