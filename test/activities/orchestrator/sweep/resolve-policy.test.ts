/**
 * Hunts references that are read as another kind, and checkpoints that vanish, or are incomplete, while an eval uses
 * them.
 */
import { fileUri, pathOf } from '../../../../protocol/policy-uri.ts';
import { someTasks } from '../../../support/some-tasks.ts';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { resolvePolicy } from '../../../../activities/orchestrator/sweep/resolve-policy.ts';
import { defaultPolicyName, parsePolicyReference } from '../../../../config/policy-reference.ts';
import type { RunRecord, StepEntry } from '../../../../protocol/records.ts';
import { keys } from '../../../../protocol/record-keys.ts';
import { makePolicy } from '../../../support/eval-world.ts';
import { useWorld } from '../../world.ts';

const world = useWorld();

it.each([
  ['starter', { kind: 'starter' }, 'starter'],
  ['./starter', { kind: 'model', model: './starter' }, 'starter'],
  ['quickstart@25', { kind: 'checkpoint', run: 'quickstart', step: 25 }, 'quickstart@25'],
  ['quickstart@0', { kind: 'checkpoint', run: 'quickstart', step: 0 }, 'quickstart@0'],
  ['replay:eval/night', { kind: 'replay', of: 'eval/night' }, 'replay-eval-night'],
  ['latest:my.run-1', { kind: 'latest', run: 'my.run-1' }, 'latest-my.run-1'],
  ['/models/a b@3', { kind: 'model', model: '/models/a b@3' }, 'a-b@3'],
  ['runs/x/checkpoints/step-5/', { kind: 'model', model: 'runs/x/checkpoints/step-5/' }, 'step-5'],
  ['run@last', { kind: 'model', model: 'run@last' }, 'run@last'],
  ['..', { kind: 'model', model: '..' }, 'policy'],
])('%s', (text, reference, name) => {
  expect(parsePolicyReference(text)).toEqual(reference);
  expect(defaultPolicyName(text)).toBe(name);
});

const runDir = () => join(world.now.dir, 'run');
const checkpoint = (step: number) => join(runDir(), 'checkpoints', `step-${step}`);
const resolve = (policy: string) => resolvePolicy({ name: 'p', policy }, join(world.now.dir, 'eval'), world.now.store);

beforeEach(async () => {
  const { store, dir } = world.now;
  const base = makePolicy(join(dir, 'base'));
  await store.putOnce<RunRecord>(keys.run('r'), {
    run: 'r',
    runDir: runDir(),
    seed: 1,
    startedAt: '',
    policy: { base: fileUri(base), parameters: 1, vocabulary: 1 },
    task: { name: 'toy', train: 1, heldOut: 1 },
    tasks: someTasks,
  });
});
async function publish(step: number) {
  makePolicy(checkpoint(step), `weights ${step}`);
  writeFileSync(join(checkpoint(step), 'optimizer.safetensors'), 'moments');
  const entry = {
    record: { step },
    policy: { uri: fileUri(checkpoint(step)), version: step },
    sha256: '',
    keep: false,
  };
  await world.now.store.putOnce<StepEntry>(keys.step('r', step), entry as StepEntry);
}

const dirOf = ({ ref }: Awaited<ReturnType<typeof resolve>>) => ('uri' in ref ? pathOf(ref.uri) : '');

it('a checkpoint stays for the eval when the run removes it, without the moments', async () => {
  for (const step of [9, 10]) await publish(step);
  const latest = await resolve('latest:r');
  expect(latest).toMatchObject({ ref: { version: 10 }, from: { run: 'r', step: 10 } });
  expect(await resolve('r@10')).toMatchObject({ ref: latest.ref, fingerprint: latest.fingerprint });
  rmSync(checkpoint(10), { recursive: true });
  expect(readFileSync(join(dirOf(latest), 'model.safetensors'), 'utf8')).toBe('weights 10');
  expect(readdirSync(dirOf(latest))).not.toContain('optimizer.safetensors');
  expect((await resolve('r@9')).fingerprint).not.toBe(latest.fingerprint);
});

it('one whose base had no tokenizer_config.json needs none', async () => {
  await publish(1);
  rmSync(join(checkpoint(1), 'tokenizer_config.json'));
  expect(await resolve('r@1')).toMatchObject({ from: { run: 'r', step: 1 } });
});

it.each(['tokenizer.json', 'model.safetensors'])(
  'one whose %s is removed while it is linked is not used',
  async (name) => {
    await publish(1);
    rmSync(join(checkpoint(1), name));
    await expect(resolve('r@1')).rejects.toMatchObject({ name: 'UserInputError', field: 'policies.p', value: 'r@1' });
    // There will be another latest one: the user need not act, so this is retried.
    await expect(resolve('latest:r')).rejects.toMatchObject({ name: 'Error' });
    expect(existsSync(join(world.now.dir, 'eval', 'policies', 'r@1'))).toBe(false);
    expect(readdirSync(join(world.now.dir, 'eval', 'policies'))).toEqual([]);
  },
);

it('a run that has made no step is its base; other names are refused', async () => {
  expect(await resolve('latest:r')).toMatchObject({ ref: { uri: fileUri(join(world.now.dir, 'base')), version: 0 } });
  await publish(1);
  await expect(resolve('r@2')).rejects.toMatchObject({
    field: 'policies.p',
    remedy: expect.stringMatching(/1 steps/) as string,
  });
  await expect(resolve('latest:other')).rejects.toMatchObject({ remedy: 'give one of the runs r' });
  mkdirSync(join(world.now.dir, 'empty'));
  await expect(resolve(join(world.now.dir, 'empty'))).rejects.toMatchObject({
    remedy: expect.stringMatching(/config.json/) as string,
  });
  expect(await resolve('starter')).toMatchObject({
    ref: { version: 0, uri: expect.stringMatching(/examples\/starter$/) as string },
  });
});
