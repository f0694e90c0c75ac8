/** Hunts policies of a single rollout that differ from the options, and keys that are accepted on the command line. */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { RunRecord, StepEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { UserInputError } from '../../../client/errors.ts';
import { choosePolicy, type PolicyOptions } from '../../../cli/rollout/choose-policy.ts';
import type { VerbContext } from '../../../cli/verb.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { makePolicy } from '../../support/eval-world.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-choose-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const context = (): VerbContext => ({
  cwd: dir,
  env: { LONGHAUL_HOME: join(dir, 'home') },
  json: true,
  say: () => undefined,
  note: () => undefined,
  signal: new AbortController().signal,
});
const choose = async (options: PolicyOptions) => (await choosePolicy(options, context())).policy;
const refusal = async (options: PolicyOptions): Promise<UserInputError> => {
  const error = await choose(options).catch((e: unknown) => e);
  if (!(error instanceof UserInputError)) throw new Error('nothing was refused', { cause: error });
  return error;
};

async function leaveRun(): Promise<void> {
  const store = openSqliteStore(join(dir, 'home', 'store'));
  const base = makePolicy(join(dir, 'base'));
  await store.putOnce<RunRecord>(keys.run('r'), {
    run: 'r',
    runDir: dir,
    seed: 1,
    startedAt: '',
    policy: { base, parameters: 1, vocabulary: 1 },
    task: { name: 'toy', train: 1, heldOut: 1 },
    tasks: someTasks,
  });
  for (const step of [1, 2]) {
    const policy = { uri: fileUri(makePolicy(join(dir, `step-${step}`))), version: step };
    await store.putOnce<StepEntry>(keys.step('r', step), {
      record: { step },
      policy,
      sha256: '',
      keep: false,
    } as StepEntry);
  }
  await store.close();
}

it('a reference is the same policy as in an eval', async () => {
  await leaveRun();
  expect(await choose({ policy: 'base' })).toEqual({ uri: fileUri(join(dir, 'base')), version: 0 });
  expect(await choose({ policy: 'r@1' })).toEqual({ uri: fileUri(join(dir, 'step-1')), version: 1 });
  expect(await choose({ policy: 'latest:r' })).toEqual({ uri: fileUri(join(dir, 'step-2')), version: 2 });
  expect(await refusal({ policy: 'r@3' })).toMatchObject({ field: '--policy', value: 'r@3' });
  expect(await refusal({ policy: 'latest:other' })).toMatchObject({
    field: '--policy',
    remedy: 'give one of the runs r',
  });
  // The run has not kept it.
  rmSync(join(dir, 'step-1'), { recursive: true });
  expect(await refusal({ policy: 'r@1' })).toMatchObject({ field: '--policy', value: 'r@1' });
});

it('a checkpoint without a store is refused, and no store is created', async () => {
  expect(await refusal({ policy: 'r@1' })).toMatchObject({ field: 'LONGHAUL_HOME' });
});

it('an endpoint is made from the options, with its defaults', async () => {
  expect(await choose({ endpoint: 'http://127.0.0.1:8000/v1', model: 'm', apiKeyEnv: 'KEY' })).toMatchObject({
    endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm', apiKeyEnv: 'KEY', mode: 'auto' },
  });
});

it.each<[PolicyOptions, string]>([
  [{}, '--policy'],
  [{ policy: 'starter', endpoint: 'http://h/v1', model: 'm' }, '--policy'],
  [{ policy: 'starter', model: 'm' }, '--model'],
  [{ policy: 'starter', apiKeyEnv: 'sk-secret' }, '--api-key-env'],
  [{ endpoint: 'http://h/v1' }, '--model'],
  [{ endpoint: 'h:8000', model: 'm' }, '--endpoint'],
  [{ endpoint: 'https://u:sk-secret@h/v1', model: 'm' }, '--endpoint'],
  [{ endpoint: 'http://h/v1', model: 'm', apiKeyEnv: 'sk-secret' }, '--api-key-env'],
])('%j is refused by the name of the option', async (options, field) => {
  const error = await refusal(options);
  expect(error.field).toBe(field);
  expect(JSON.stringify([error.message, error.value, error.remedy])).not.toContain('secret');
});
