/** Hunts runs that begin with a context that the engine does not have, or go on with another one than they began with. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kindsOfRuns, openEngine } from '../../../activities/generate/open-engine.ts';
import { contextIfReadable, contextOf } from '../../../config/policy-context.ts';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { packageRoot } from '#setup/paths.mjs';
import { keys } from '../../../protocol/record-keys.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';

/** 1,024 positions; a token takes 2 KiB of keys and values. */
const starter = join(packageRoot, 'examples', 'starter');
const parts = ['sampling', 'training'] as const;
const one = [{ field: 'policy.base', uri: fileUri(starter) }];

let dir: string;
let store: Store;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-engine-'));
  store = openSqliteStore(join(dir, 'store'));
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true, force: true });
});

const withMiB = (mebibytes: number) => ({
  store,
  contextOf: (policy: string) => contextOf(policy, { LONGHAUL_KV_CACHE_MIB: String(mebibytes) }, false),
});

describe('an engine', () => {
  it("gives a run its policy's context, or the shorter one that it asks for", async () => {
    expect(await openEngine({ run: 'a', parts, policies: one }, withMiB(64))).toEqual({
      contextTokens: 1024,
      kinds: {},
    });
    const asked = { run: 'b', parts, policies: one, maxContextTokens: 700 };
    expect(await openEngine(asked, withMiB(64))).toEqual({ contextTokens: 700, kinds: {} });
    const bounded = { run: 'c', parts, policies: one, policyContextTokens: 800 };
    expect(await openEngine(bounded, withMiB(64))).toEqual({ contextTokens: 800, kinds: {} });
  });

  it('refuses a context above that of the configuration, of the memory, or of the policy, with numbers and remedy', async () => {
    const asking = (asked: object, mebibytes: number) =>
      openEngine({ run: 'r', parts, policies: one, ...asked }, withMiB(mebibytes));
    await expect(asking({ maxContextTokens: 1025 }, 64)).rejects.toMatchObject({
      field: 'agent.maxContextTokens',
      value: 1025,
      remedy: 'give at most 1024 for policy.base (max_position_embeddings of its config.json is 1024)',
    });
    const { tokens } = await withMiB(1).contextOf(starter);
    expect(tokens).toBeLessThan(1024);
    await expect(asking({ policyContextTokens: 1024 }, 1)).rejects.toMatchObject({
      field: 'policy.maxContextTokens',
      remedy: expect.stringMatching(
        new RegExp(
          `^give at most ${tokens} .* cache of 1 MiB holds ${tokens} of the 1024 tokens .* LONGHAUL_KV_CACHE_MIB=`,
        ),
      ) as string,
    });
    await expect(asking({ policyContextTokens: 500, maxContextTokens: 501 }, 64)).rejects.toMatchObject({
      field: 'agent.maxContextTokens',
      remedy: 'give at most 500 for policy.base (policy.maxContextTokens)',
    });
    // Nothing was agreed on.
    expect(await openEngine({ run: 'r', parts, policies: one }, withMiB(64))).toEqual({
      contextTokens: 1024,
      kinds: {},
    });
  });

  it('keeps to what it has agreed on, and refuses to go on with less memory', async () => {
    const run = { run: 'r', parts, policies: one };
    const first = await openEngine(run, withMiB(64));
    expect(await openEngine(run, withMiB(128))).toEqual(first);
    await expect(openEngine(run, withMiB(1))).rejects.toMatchObject({
      field: 'LONGHAUL_KV_CACHE_MIB',
      remedy: expect.stringContaining('r began with a context of 1024 tokens') as string,
    });
  });

  it('leaves each of several policies its own context, and bounds all of them by a setting', async () => {
    const policies = [...one, { field: 'policies.b', uri: fileUri(starter) }];
    expect(await openEngine({ run: 'eval/a', parts, policies }, withMiB(64))).toEqual({ kinds: {} });
    const asked = { parts, policies, maxContextTokens: 700 };
    expect(await openEngine({ run: 'eval/b', ...asked }, withMiB(64))).toEqual({ contextTokens: 700, kinds: {} });
  });
});

describe('the kind of engine', () => {
  const kinds = (id: string) => ({
    sampling: { id: `native-${id}`, depends: { build: id } },
    training: { id: `tensorflow-${id}`, depends: { isa: id } },
  });
  const input = { run: 'r', parts, policies: one };
  const of = (id: string, mixed = false) => ({ ...withMiB(64), kinds: kinds(id), mixed });

  it('of the first worker that is asked makes the products, with what they depend on in the record', async () => {
    const agreed = { contextTokens: 1024, kinds: { sampling: 'native-a', training: 'tensorflow-a' } };
    expect(await openEngine(input, of('a'))).toEqual(agreed);
    expect(await openEngine(input, of('b'))).toEqual(agreed);
    // What fits the memory of another kind's worker does not matter.
    expect(await openEngine(input, { ...of('b'), ...withMiB(1) })).toEqual(agreed);
    expect(await store.get(keys.engine('r', parts))).toEqual({
      run: 'r',
      contextTokens: 1024,
      kinds: kinds('a'),
      mixed: false,
    });
    expect(await kindsOfRuns(store)).toEqual({ sampling: ['native-a'], training: ['tensorflow-a'] });
  });

  it('is none for policies of other backends, which make their products elsewhere', async () => {
    const policies = [{ field: 'policy.base', uri: 'tinker://run/1' }];
    expect(await openEngine({ run: 'far', parts, policies }, of('a'))).toEqual({ kinds: {} });
  });

  it('is asked for each part where other workers train', async () => {
    const apart = { run: 'r', policies: [] };
    expect(await openEngine({ ...apart, parts: ['sampling'] }, of('a'))).toEqual({ kinds: { sampling: 'native-a' } });
    expect(await openEngine({ ...apart, parts: ['training'] }, of('b'))).toEqual({
      kinds: { training: 'tensorflow-b' },
    });
  });

  it('may be any for a run that begins with mixed engines, which serve the kinds of earlier runs, too', async () => {
    expect(await openEngine(input, of('b', true))).toEqual({ contextTokens: 1024, kinds: {} });
    await openEngine({ ...input, run: 'earlier' }, of('a'));
    expect(await openEngine({ ...input, run: 'earlier' }, of('b', true))).toMatchObject({
      kinds: { sampling: 'native-a' },
    });
    expect((await kindsOfRuns(store)).sampling.toSorted()).toEqual(['native-a', 'native-b']);
  });
});

it('a policy without a readable configuration is not checked here, but a wrong budget is refused by its name', async () => {
  writeFileSync(join(dir, 'config.json'), '{}');
  expect(await contextIfReadable(dir, {}, false)).toBeUndefined();
  expect(await contextIfReadable(join(dir, 'nowhere'), {}, false)).toBeUndefined();
  await expect(contextIfReadable(starter, { LONGHAUL_KV_CACHE_MIB: 'much' }, false)).rejects.toMatchObject({
    name: 'UserInputError',
    field: 'LONGHAUL_KV_CACHE_MIB',
  });
});
