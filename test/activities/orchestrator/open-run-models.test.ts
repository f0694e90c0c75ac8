/** Hunts models that a run cannot train, or not as configured, and that are found only when it trains. */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { modelConfigJson } from '../../../trainer/model/config.ts';
import { describePolicy } from '../../../trainer/model/describe-policy.ts';
import { smallConfig } from '../../trainer/tiny-policy.ts';
import { orchestratorActivities, RUN } from '../world.ts';
import { useOpening } from './opening.ts';

const { world, open, base, good, refusal } = useOpening();

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
