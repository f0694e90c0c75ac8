/**
 * Hunts a changed digit in the store's file that enters an update, a grade or a report unnoticed: every reader fails
 * with the record's key, without a retry, and the rest is not used.
 */
import { trainingBy } from './scripted-parts.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { someTasks } from '../support/some-tasks.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import type { GenerateRecord, OutcomeRecord, RunRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { turnsOf } from '../../store/read-records.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { summaryOf } from '../../reports/run-summary.ts';
import { trajectoryOf } from '../../reports/trajectories.ts';
import { updateOnce } from '../../activities/update/update.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { changeOnDisk } from '../store/change-on-disk.ts';
import { algorithm, attemptOf, environment, inActivity, putManifest, RUN, useWorld } from './world.ts';

const world = useWorld();
const runDir = '/runs/r';
let dir: string;
let store: Store;
let artifact: ObjectRef;

/** Two rollouts of two turns each. */
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-damaged-'));
  const written = openSqliteStore(dir);
  const policy = { base: 'file:///p', parameters: 1, vocabulary: 1 };
  await written.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir,
    seed: 41_007,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy,
    task: { name: 'toy', train: 2, heldOut: 1 },
    tasks: someTasks,
  });
  await putManifest(written, [attemptOf(0).task]);
  for (const k of [0, 1]) {
    const attempt = attemptOf(0, k);
    for (const turn of [1, 2]) {
      const said = {
        version: 4,
        appended: [1, 2],
        reset: false,
        sampled: [3, 0],
        logprobs: [-0.1 * (k + 1), -turn - 0.5],
        end: 'stop' as const,
      };
      await written.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
        ...said,
        parsed: { kind: 'no-call', content: '' },
      });
    }
    await written.putOnce(keys.verdict(attempt), { code: 'graded', reward: k, passed: k > 0, reason: `verdict ${k}` });
    const end = {
      rollout: attempt.rollout,
      task: attempt.task,
      attempt: 1,
      turns: 2,
      status: 'graded',
      reward: k,
      passed: k > 0,
      finish: 'finish-tool',
      failure: null,
      reason: `reason ${k}`,
    };
    await written.putOnce<OutcomeRecord>(keys.outcome(attempt.rollout), end as OutcomeRecord);
    await written.append([
      { run: RUN, rollout: attempt.rollout, attempt: 1, event: 'graded', at: `2026-01-01T00:00:0${k}.000Z` },
    ]);
  }
  artifact = await written.putObject(Buffer.from('diff number 1'));
  await written.close();
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

const changed = (...changes: ReadonlyArray<readonly [from: string, to: string]>) => {
  changeOnDisk(dir, ...changes);
  store = openSqliteStore(dir);
};
/** The store without the row of this key, as if no page of the file pointed to it. */
const without = (key: string) => {
  const raw = new DatabaseSync(join(dir, 'store.sqlite'));
  raw.prepare('DELETE FROM results WHERE key = ?').run(key);
  raw.close();
  store = openSqliteStore(dir);
};
const update = () => {
  const input = {
    run: RUN,
    runDir,
    step: 1,
    steps: 2,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    algorithm,
    policy: { uri: 'file:///p', version: 4 },
  };
  return withFailureMapping(() => updateOnce(input, store, trainingBy(world.now.engine), () => undefined));
};
const grade = (ref = artifact) =>
  inActivity(() =>
    createRewardActivities({
      store,
      tasks: new TaskLoader(store),
      provider: world.now.provider,
      host: 'here',
    }).computeReward({ ...attemptOf(0, 1), artifact: ref, finish: 'finish-tool', turns: 2 }),
  );
const summary = () => summaryOf(RUN, store, { address: '', namespace: '', ui: '' });
/** The failure that Temporal receives: with class and key, and non-retryable. */
const refused = (key: string) => ({
  type: 'StoreCorrupt',
  nonRetryable: true,
  message: expect.stringContaining(key) as string,
});
const corrupt = (key: string) => ({ name: 'StoreCorrupt', key });
const second = keys.generate(attemptOf(0, 1), 2);

it('an update reads no turn with a changed digit, and trains on nothing', async () => {
  changed(['"logprobs":[-0.2,-2.5]', '"logprobs":[-0.2,-2.7]']);
  await expect(update()).rejects.toMatchObject(refused(second));
  expect(world.now.engine.updates).toEqual([]);
  expect(await store.list('end:')).toEqual([]);
  await expect(
    trajectoryOf(attemptOf(0, 1).rollout, { store: store, tasks: new TaskLoader(store) }),
  ).rejects.toMatchObject(corrupt(second));
});

it('an update reads no reward with a changed digit, and no two that changed places', async () => {
  changed(['"reason":"reason 1"', '"reason":"reason 0"']);
  await expect(update()).rejects.toMatchObject(refused(keys.outcome(attemptOf(0, 1).rollout)));
  expect(world.now.engine.updates).toEqual([]);
});

it('a turn that is missing, first, last or between two others, does not make a shorter rollout', async () => {
  without(second);
  await expect(update()).rejects.toMatchObject(refused(second));
  const first = keys.generate(attemptOf(0, 0), 1);
  await store.close();
  without(first);
  await expect(turnsOf(store, attemptOf(0, 0))).rejects.toMatchObject(corrupt(first));
});

it('an outcome that is missing beside its verdict is no rollout without an end', async () => {
  without(keys.outcome(attemptOf(0, 0).rollout));
  await expect(update()).rejects.toMatchObject(refused(keys.outcome(attemptOf(0, 0).rollout)));
});

it('a grading takes neither a verdict nor an artifact with a changed digit, and calls no grader', async () => {
  changed(['verdict 1', 'verdict 2'], ['diff number 1', 'diff number 2']);
  await expect(grade()).rejects.toMatchObject(refused(keys.verdict(attemptOf(0, 1))));
  const other = { ...attemptOf(0, 2), artifact, finish: 'finish-tool' as const, turns: 2 };
  const activities = createRewardActivities({
    store,
    tasks: new TaskLoader(store),
    provider: world.now.provider,
    host: 'here',
  });
  await expect(inActivity(() => activities.computeReward(other))).rejects.toMatchObject(refused(artifact));
  expect(environment.graded).toEqual([]);
});

it('a report uses no record and no event with a changed digit', async () => {
  changed(['"seed":41007', '"seed":41009']);
  await expect(summary()).rejects.toMatchObject(corrupt(keys.run(RUN)));
  await store.close();
  changed(['"seed":41009', '"seed":41007'], ['2026-01-01T00:00:01.000Z', '2026-01-01T00:00:09.000Z']);
  await expect(summary()).rejects.toMatchObject(corrupt(`${attemptOf(0, 1).rollout}#1 graded`));
});
