/** Hunts bad input that is accepted, or refused without field, value and remedy. */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import type { RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { orchestratorActivities, RUN } from '../world.ts';
import { useOpening } from './opening.ts';

const { world, open, base, good, refusal } = useOpening();

it('makes the folder with the resolved configuration, and records the run', async () => {
  const { config, runDir, policy } = await open(good());
  expect(runDir).toBe(join(world.now.dir, 'runs', RUN));
  expect(policy).toEqual({ uri: fileUri(base()), version: 0 });
  expect(config).toMatchObject({
    seed: 5,
    steps: 20,
    batch: { tasks: 8, samples: 8 },
    algorithm: { advantage: 'grpo' },
  });
  const { opened: _opened, ...written } = config;
  expect(parse(readFileSync(join(runDir, 'config.yaml'), 'utf8'))).toEqual(written);
  expect(await world.now.store.get<RunRecord>(keys.run(RUN))).toMatchObject({
    run: RUN,
    runDir,
    seed: 5,
    policy: { base: fileUri(base()), parameters: 12, vocabulary: 34 },
    task: { name: 'toy', train: 10, heldOut: 200 },
  });
});

it('refuses a run that the GPU workers could not train, before anything is written', async () => {
  const parts = {
    store: world.now.store,
    tasks: new TaskLoader(world.now.store),
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy: async () => ({ parameters: 1, vocabulary: 1 }),
  };
  const activities = orchestratorActivities({
    ...parts,
    refusedPlacement: (placement) => (placement === 'disaggregated' ? 'one worker does both' : undefined),
  });
  await expect(activities.openRun({ ...good(), training: { placement: 'disaggregated' } }, RUN)).rejects.toMatchObject({
    type: 'UserInputError',
    message: expect.stringContaining('training.placement: "disaggregated"') as unknown,
  });
  expect(await world.now.store.get(keys.run(RUN))).toBeUndefined();
  expect((await activities.openRun(good(), RUN)).config.training).toEqual({ mode: 'sync' });
});

it('opens the same run when it is called twice', async () => {
  const first = await open(good());
  const record = await world.now.store.get(keys.run(RUN));
  expect(await open(good())).toEqual(first);
  expect(await world.now.store.get(keys.run(RUN))).toEqual(record);
});

it('takes the name in the workflow’s id, and refuses another one', async () => {
  const { run: _, ...nameless } = good();
  const { config, runDir } = await open(nameless, 'mine');
  expect([config.run, runDir]).toEqual(['mine', join(world.now.dir, 'runs', 'mine')]);
  expect((await open(good(), RUN)).config.run).toBe(RUN);
  expect(await refusal(open(good(), 'mine'))).toMatchObject({
    field: 'run',
    value: RUN,
    remedy: expect.stringContaining('train/mine') as string,
  });
});

it('refuses a known name with another configuration, and leaves the first one on disk', async () => {
  const { config, runDir } = await open(good());
  const { seed, ...rest } = good();
  expect((await open({ ...rest, seed })).config).toEqual(config);
  const refused = await refusal(open({ ...good(), sampling: { temperature: 0.5 }, steps: 7 }));
  expect(refused).toMatchObject({
    field: 'sampling.temperature',
    value: 0.5,
    remedy: expect.stringMatching(/began with 1; .*another run name/) as string,
  });
  expect(await refusal(open({ ...good(), dispatcher: { maxParallelAgents: 3 } }))).toMatchObject({
    field: 'dispatcher.maxParallelAgents',
    value: 3,
  });
  const { opened: _opened, ...written } = config;
  expect(parse(readFileSync(join(runDir, 'config.yaml'), 'utf8'))).toEqual(written);
});

it('refuses a folder with the weights of a run that the store does not know', async () => {
  const runDir = join(world.now.dir, 'runs', RUN);
  mkdirSync(join(runDir, 'checkpoints', 'step-3'), { recursive: true });
  expect(await refusal(open(good()))).toMatchObject({
    field: 'run',
    value: RUN,
    remedy: expect.stringContaining(runDir) as string,
  });
  rmSync(join(runDir, 'checkpoints'), { recursive: true });
  await open(good());
  mkdirSync(join(runDir, 'checkpoints', 'step-1'), { recursive: true });
  expect((await open(good())).runDir).toBe(runDir);
});

it.each([
  ['an unknown field', { colour: 'red' }, 'colour', 'red', /there is no such setting/],
  ['an unknown nested field', { sampling: { warmth: 2 } }, 'sampling.warmth', 2, /there is no such setting/],
  ['groups of one', { batch: { samples: 1 } }, 'batch.samples', 1, /compares the rollouts of a group/],
  [
    'more tasks a step than there are',
    { batch: { tasks: 11 } },
    'batch.tasks',
    11,
    /may draw 11 tasks of toy, and its pool has 10/,
  ],
  ['a task nobody knows', { task: { name: 'nope', train: 10 } }, 'task.name', 'nope', /toy/],
  ['a run name that is no folder name', { run: '../up' }, 'run', '../up', /letters, digits/],
  ['a number of steps that is none', { steps: 0 }, 'steps', 0, /1/],
])('refuses %s', async (_, change, field, value, remedy) => {
  const refused: unknown = await open({ ...good(), ...change }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ type: 'UserInputError', nonRetryable: true });
  const { cause } = refused as { cause: unknown };
  expect(cause).toBeInstanceOf(UserInputError);
  expect(cause).toMatchObject({ field, value, remedy: expect.stringMatching(remedy) as string });
  expect(await world.now.store.get(keys.run(RUN))).toBeUndefined();
});

it.each(['config.json', 'tokenizer.json'])('refuses a policy without %s', async (file) => {
  rmSync(join(base(), file));
  await expect(open(good())).rejects.toMatchObject({
    cause: {
      field: 'policy.base',
      value: base(),
      remedy: `give a directory with ${file}: a model in Hugging Face layout`,
    },
  });
});

it('returns the changes of the live run, in order, once each, and writes them into the folder', async () => {
  const { store } = world.now;
  const { runDir, config, changes: none } = await open(good());
  expect(none).toBeUndefined();
  const activities = orchestratorActivities({
    store,
    tasks: new TaskLoader(store),
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy: async () => ({ parameters: 1, vocabulary: 1 }),
  });
  const change = (step: number, to: number) => ({
    at: `2026-01-01T00:00:0${step}.000Z`,
    step,
    field: 'steps',
    from: 20,
    to,
  });
  for (const step of [2, 1, 2]) {
    const made = change(step, 30 + step);
    await activities.recordChanges({ run: RUN, runDir, key: `${made.at}/00001/u`, changes: [made] });
  }
  const expected = [change(1, 31), change(2, 32)];
  expect(await open(good())).toMatchObject({ config, changes: expected });
  const lines = readFileSync(join(runDir, 'changes.jsonl'), 'utf8').trim().split('\n');
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(expected);
});

it('continues from the last recorded step if rollouts overlap with updates, otherwise from the first', async () => {
  const { store } = world.now;
  const step = (n: number, overlap?: object) => ({
    record: { step: n },
    policy: { uri: `file:///v${n}`, version: n },
    sha256: 'x',
    keep: false,
    ...(overlap ? { overlap } : {}),
  });
  await open(good());
  expect((await open(good())).recorded).toBeUndefined();
  await store.putOnce(keys.step(RUN, 1), step(1));
  const again = await open(good());
  expect(again.recorded).toBe(1);
  expect(again.resume).toBeUndefined();
  const overlap = {
    begun: 5,
    running: [{ number: 4, policy: { uri: 'file:///v1', version: 1 }, lastStep: 4 }],
    ended: [],
  };
  await store.putOnce(keys.step(RUN, 2), step(2, overlap));
  expect((await open(good())).resume).toEqual({ step: 2, policy: { uri: 'file:///v2', version: 2 }, overlap });
  await store.putOnce(keys.update(RUN, 3), { units: [4, 5] });
  expect((await open(good())).resume).toEqual({
    step: 2,
    policy: { uri: 'file:///v2', version: 2 },
    overlap,
    owed: [4, 5],
  });
});

it('trains the first step on the units of its update, if only the update is recorded', async () => {
  await world.now.store.putOnce(keys.update(RUN, 1), { units: [1, 3] });
  const { resume, policy } = await open(good());
  expect(resume).toEqual({ step: 0, policy, overlap: { begun: 0, running: [], ended: [] }, owed: [1, 3] });
});

it('the modules of a run are loaded before anything is made, and must define the names that are used', async () => {
  const module = join(world.now.dir, 'losses.mjs');
  const asking = { ...good(), modules: [module], algorithm: { loss: 'open-run-test' } };
  expect(await refusal(open(asking))).toMatchObject({
    field: 'modules',
    remedy: expect.stringMatching(/no such file/),
  });
  const defined = "defineLoss('open-run-test', { correctable: false, terms: () => { throw new Error(); } })";
  writeFileSync(module, `import { defineLoss } from 'longhaul';\n${defined};\n`);
  for (const [algorithm, field, remedy] of [
    [{ loss: 'another' }, 'algorithm.loss', /no module of the run defines it; give one of regular/],
    [{ loss: 'open-run-tset' }, 'algorithm.loss', /, open-run-test; did you mean open-run-test\?$/],
    [{ loss: 'open-run-test', offPolicyCorrection: {} }, 'algorithm.offPolicyCorrection', /leave it out/],
  ] as const) {
    const refused = await refusal(open({ ...asking, run: 'b', algorithm }));
    expect(refused).toMatchObject({ field, remedy: expect.stringMatching(remedy) });
  }
  expect(await world.now.store.get(keys.run('b'))).toBeUndefined();
  expect((await open(asking)).config.algorithm.loss).toBe('open-run-test');
});

it('a run that is resumed has the modules that it started with, whatever the file is by then', async () => {
  const module = join(world.now.dir, 'losses.mjs');
  const defining = (name: string) =>
    `import { defineLoss } from 'longhaul';\ndefineLoss('${name}', { correctable: false, terms: () => { throw new Error(); } });\n`;
  const asking = (run: string) => ({ ...good(), run, modules: [module], algorithm: { loss: 'as-it-was' } });
  const modulesOf = async (run: string) => (await world.now.store.get<RunRecord>(keys.run(run)))?.modules;
  writeFileSync(module, defining('as-it-was'));
  await open(asking('begun'));
  const started = await modulesOf('begun');
  writeFileSync(module, defining('as-it-is'));
  await open(asking('begun'));
  expect(await modulesOf('begun')).toBe(started);
  expect(await refusal(open(asking('new')))).toMatchObject({ field: 'algorithm.loss', value: 'as-it-was' });
});
