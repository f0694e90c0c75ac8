/** Hunts bad input that is accepted, or refused without field, value and remedy. */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import type { RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { modelConfigJson } from '../../../trainer/model/config.ts';
import { describePolicy } from '../../../trainer/model/describe-policy.ts';
import { smallConfig } from '../../trainer/tiny-policy.ts';
import { orchestratorActivities, RUN, useWorld } from '../world.ts';

const world = useWorld();

function open(given: unknown, run?: string) {
  const { store } = world.now;
  const describePolicy = async () => ({ parameters: 12, vocabulary: 34 });
  return orchestratorActivities({
    store,
    tasks: new TaskLoader(store),
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy,
  }).openRun(given, run as string);
}
const base = () => join(world.now.dir, 'policy');
const good = () => ({
  run: RUN,
  dir: join(world.now.dir, 'runs'),
  seed: 5,
  policy: { base: base() },
  task: { name: 'toy', train: 10 },
});

beforeEach(() => {
  mkdirSync(base());
  for (const file of ['config.json', 'tokenizer.json']) writeFileSync(join(base(), file), '{}');
});

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

const refusal = async (opening: Promise<unknown>) => {
  const refused: unknown = await opening.catch((error: unknown) => error);
  expect(refused).toMatchObject({ type: 'UserInputError', nonRetryable: true });
  return (refused as { cause: UserInputError }).cause;
};

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

describe('a base that is an adapter', () => {
  const adapter = { r: 4, lora_alpha: 8, target_modules: ['v_proj', 'q_proj'] };
  const own = { rank: 4, alpha: 8, targetModules: ['q_proj', 'v_proj'] };
  const write = (more: object = {}) =>
    writeFileSync(join(base(), 'adapter_config.json'), JSON.stringify({ ...adapter, ...more }));
  const withLora = (lora: object, run = RUN) => open({ ...good(), run, policy: { base: base(), lora } });

  it('is trained further: policy.lora must equal it, or be left out', async () => {
    write({ rank_pattern: {}, use_rslora: false, layers_to_transform: null });
    for (const lora of [{}, { ...own, rank: 8 }, { ...own, alpha: 16 }, { ...own, targetModules: ['q_proj'] }]) {
      expect(await refusal(withLora(lora))).toMatchObject({
        field: 'policy.lora',
        value: lora,
        remedy: expect.stringMatching(
          /^give {"rank":4,"alpha":8,"targetModules":\["v_proj","q_proj"\]}, .*leave it out: the adapter is trained in any case/,
        ) as string,
      });
    }
    expect(await world.now.store.get(keys.run(RUN))).toBeUndefined();
    await withLora(own);
    await open({ ...good(), run: 'unsaid' });
  });

  it.each([
    { use_rslora: true },
    { rank_pattern: { q_proj: 2 } },
    { alpha_pattern: { q_proj: 2 } },
    { layers_to_transform: [0] },
    { exclude_modules: ['v_proj'] },
  ])('with %j cannot be expressed by policy.lora', async (more) => {
    write(more);
    expect(await refusal(withLora(own))).toMatchObject({
      field: 'policy.lora',
      value: own,
      remedy: expect.stringMatching(new RegExp(`^leave it out: .*${Object.keys(more)[0]} = `)) as string,
    });
    await open(good());
  });

  it('does not stop a recorded run, whatever it started with', async () => {
    await withLora({});
    write();
    expect((await withLora({})).config.policy.lora).toMatchObject({ rank: 8 });
  });
});

it.each([
  ['is not implemented', '{"model_type":"mixtral"}', /model_type = "mixtral" is not supported: use a dense text model/],
  ['is no JSON', '{', /give another model: SyntaxError/],
])('a model whose configuration %s is refused at once, a critic too', async (_, text, remedy) => {
  const { store } = world.now;
  const parts = {
    store,
    tasks: new TaskLoader(store),
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy,
  };
  const opening = (given: object) => orchestratorActivities(parts).openRun({ ...good(), ...given }, RUN);
  writeFileSync(join(base(), 'config.json'), text);
  expect(await refusal(opening({}))).toMatchObject({
    field: 'policy.base',
    value: base(),
    remedy: expect.stringMatching(remedy) as string,
  });
  const critic = join(world.now.dir, 'critic');
  mkdirSync(critic);
  renameSync(join(base(), 'config.json'), join(critic, 'config.json'));
  writeFileSync(join(base(), 'config.json'), JSON.stringify(modelConfigJson(smallConfig)));
  expect(await refusal(opening({ algorithm: { advantage: 'gae', critic: { base: critic } } }))).toMatchObject({
    field: 'algorithm.critic.base',
    value: critic,
    remedy: expect.stringMatching(remedy) as string,
  });
});

describe('the model that a critic starts from', () => {
  const withCritic = (critic: object) => ({ ...good(), algorithm: { advantage: 'gae', critic } });
  const other = () => join(world.now.dir, 'critic');
  beforeEach(() => {
    mkdirSync(other());
    writeFileSync(join(other(), 'config.json'), '{}');
  });

  it('is the base policy or the given directory, recorded with the run', async () => {
    await open(withCritic({}));
    expect(await world.now.store.get<RunRecord>(keys.run(RUN))).toMatchObject({ critic: { base: fileUri(base()) } });
    await open({ ...withCritic({ base: other() }), run: 'second' });
    expect(await world.now.store.get<RunRecord>(keys.run('second'))).toMatchObject({
      critic: { base: fileUri(other()) },
    });
    await open({ ...good(), run: 'third' });
    expect(await world.now.store.get<RunRecord>(keys.run('third'))).not.toHaveProperty('critic');
  });

  it('is refused if it is not a model, has other tokens, or the base policy has a critic beside it', async () => {
    const field = 'algorithm.critic.base';
    expect(await refusal(open(withCritic({ base: join(world.now.dir, 'none') })))).toMatchObject({
      field,
      remedy: expect.stringContaining('config.json') as string,
    });
    writeFileSync(
      join(base(), 'longhaul.json'),
      JSON.stringify({ step: 1, version: 1, sha256: 'a', critic: { sha256: 'b' } }),
    );
    expect(await refusal(open(withCritic({ base: other() })))).toMatchObject({
      field,
      remedy: expect.stringContaining('has a critic beside it') as string,
    });
    expect(await open(withCritic({}))).toMatchObject({ runDir: expect.any(String) as string });
    rmSync(join(base(), 'longhaul.json'));
    const { store } = world.now;
    const describePolicy = async (dir: string) => ({ parameters: 12, vocabulary: dir === other() ? 35 : 34 });
    const opening = orchestratorActivities({
      store,
      tasks: new TaskLoader(store),
      temporal: { address: '', namespace: '', ui: '' },
      describePolicy,
    }).openRun({ ...withCritic({ base: other() }), run: 'fourth' }, 'fourth');
    expect(await refusal(opening)).toMatchObject({
      field,
      remedy: expect.stringMatching(/35 vocabulary entries, the policy 34/) as string,
    });
  });

  it('may be an adapter, which is trained further: other settings are refused, and its own are named', async () => {
    const field = 'algorithm.critic.lora';
    const json = JSON.stringify({ r: 4, lora_alpha: 8, target_modules: ['v_proj', 'q_proj'] });
    writeFileSync(join(other(), 'adapter_config.json'), json);
    const own = { rank: 4, alpha: 8, targetModules: ['q_proj', 'v_proj'] };
    const refused = await refusal(open(withCritic({ base: other(), lora: {} })));
    expect(refused).toMatchObject({
      field,
      value: { rank: 8 },
      remedy: expect.stringMatching(
        /^give {"rank":4,"alpha":8,"targetModules":\["v_proj","q_proj"\]}, .*leave it out: then all weights are trained/,
      ) as string,
    });
    await open({ ...withCritic({ base: other(), lora: own }), run: 'same' });
    await open({ ...withCritic({ base: other() }), run: 'whole' });
    await open({ ...withCritic({ lora: {} }), run: 'new' });
    // A critic beside the base policy is trained further too.
    writeFileSync(
      join(base(), 'longhaul.json'),
      JSON.stringify({ step: 1, version: 1, sha256: 'a', critic: { sha256: 'b' } }),
    );
    await open({ ...withCritic({ lora: {} }), run: 'beside-whole' });
    mkdirSync(join(base(), 'critic'));
    writeFileSync(join(base(), 'critic', 'adapter_config.json'), json);
    for (const lora of [{}, { ...own, rank: 8 }, { ...own, alpha: 16 }, { ...own, targetModules: ['q_proj'] }]) {
      expect(await refusal(open({ ...withCritic({ lora }), run: 'other' }))).toMatchObject({
        field,
        remedy: expect.stringContaining('the adapter is trained in any case') as string,
      });
    }
    await open({ ...withCritic({ lora: own }), run: 'beside' });
    await open({ ...withCritic({}), run: 'beside-unsaid' });
  });
});
