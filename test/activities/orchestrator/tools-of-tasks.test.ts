/** Hunts a run or an eval that continues with other packages of its agent than it began with. */

import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { createSweepActivities } from '../../../activities/orchestrator/sweep/sweep-activities.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { RunRecord } from '../../../protocol/records.ts';
import { type EvalRecord, evalKeys } from '../../../reports/evaluation/eval-records.ts';
import { toolsDigest } from '../../../sandboxes/tools-digest.ts';
import type { Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { inActivity, orchestratorActivities, RUN } from '../world.ts';
import { useOpening } from './opening.ts';

const { world, good, refusal } = useOpening();
const kit = () => join(world.now.dir, 'kit');

const task = (): Task => ({
  messages: [{ role: 'user', content: 'work' }],
  tools: [],
  sandboxes: { main: { workdir: '/work', files: [], env: {}, toolsFolder: kit() } },
  grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
});
defineEnvironment({
  name: 'with-tools',
  open: async () =>
    await Promise.resolve({
      digest: '1',
      splits: { train: 9, test: 9 },
      load: async () => await Promise.resolve(task()),
    }),
});

beforeEach(() => {
  mkdirSync(kit());
  writeFileSync(join(kit(), 'agent.py'), 'ask()\n');
});

type Guard = (path: string) => void;
const allow: Guard = () => undefined;

const openRun = (guardTools?: Guard) =>
  orchestratorActivities({
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy: async () => ({ parameters: 1, vocabulary: 2 }),
    ...(guardTools && { guardTools }),
  }).openRun({ ...good(), task: { name: 'with-tools' }, batch: { tasks: 2 } }, RUN);

const openEval = (tasks: object, guardTools?: Guard) =>
  inActivity(() =>
    createSweepActivities({
      store: world.now.store,
      tasks: new TaskLoader(world.now.store),
      ...(guardTools && { guardTools }),
    }).openSweep({ given: { eval: 'e', dir: world.now.dir, tasks, policies: ['oracle'] }, eval: 'e', execution: 'x' }),
  );

const openings: ReadonlyArray<readonly [string, (guard?: Guard) => Promise<unknown>, () => Promise<unknown>]> = [
  ['a run', openRun, async () => (await world.now.store.get<RunRecord>(keys.run(RUN)))?.tools],
  ...(
    [
      ['an eval', { name: 'with-tools', split: 'test', count: 3 }],
      ['an eval of tasks by their keys', { ids: ['with-tools-test-0', 'with-tools-train-1'] }],
    ] as const
  ).map(
    ([name, tasks]) =>
      [
        name,
        (guard?: Guard) => openEval(tasks, guard),
        async () => (await world.now.store.get<EvalRecord>(evalKeys.record('e')))?.tools,
      ] as const,
  ),
];

describe.each(openings)('%s', (_, open, recorded) => {
  it('has the digest of its folder of tools, and is refused by name with other packages', async () => {
    await open(allow);
    expect(await recorded()).toEqual({ [kit()]: await toolsDigest(kit()) });
    await open(allow);
    writeFileSync(join(kit(), 'agent.py'), 'ask(twice=True)\n');
    expect(await refusal(open(allow))).toMatchObject({
      field: 'toolsFolder',
      value: kit(),
      remedy: expect.stringMatching(/packages have changed since (run|eval) \w+ started: install/u) as string,
    });
    writeFileSync(join(kit(), 'agent.py'), 'ask()\n');
    await open(allow);
  });

  it('opens again on a host where the folder is missing, or not allowed', async () => {
    await open(allow);
    await open(() => {
      throw new Error('not here');
    });
    renameSync(kit(), `${kit()}-away`);
    await open(allow);
    await open();
    expect(await recorded()).toHaveProperty([kit()]);
  });
});
