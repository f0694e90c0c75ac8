/** Hunts runs that begin with a context that the engine does not have, or go on with another one than they began with. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openEngine } from '../../../activities/generate/open-engine.ts';
import { contextIfReadable, contextOf } from '../../../config/policy-context.ts';
import { fileUri } from '../../../protocol/policy-uri.ts';
import { packageRoot } from '#setup/paths.mjs';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';

/** 1,024 positions; a token takes 2 KiB of keys and values. */
const starter = join(packageRoot, 'examples', 'starter');
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
    expect(await openEngine({ run: 'a', policies: one }, withMiB(64))).toEqual({ contextTokens: 1024 });
    const asked = { run: 'b', policies: one, maxContextTokens: 700 };
    expect(await openEngine(asked, withMiB(64))).toEqual({ contextTokens: 700 });
    const bounded = { run: 'c', policies: one, policyContextTokens: 800 };
    expect(await openEngine(bounded, withMiB(64))).toEqual({ contextTokens: 800 });
  });

  it('refuses a context above that of the configuration, of the memory, or of the policy, with numbers and remedy', async () => {
    const asking = (asked: object, mebibytes: number) =>
      openEngine({ run: 'r', policies: one, ...asked }, withMiB(mebibytes));
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
    expect(await openEngine({ run: 'r', policies: one }, withMiB(64))).toEqual({ contextTokens: 1024 });
  });

  it('keeps to what it has agreed on, and refuses to go on with less memory', async () => {
    const run = { run: 'r', policies: one };
    const first = await openEngine(run, withMiB(64));
    expect(await openEngine(run, withMiB(128))).toEqual(first);
    await expect(openEngine(run, withMiB(1))).rejects.toMatchObject({
      field: 'LONGHAUL_KV_CACHE_MIB',
      remedy: expect.stringContaining('r began with a context of 1024 tokens') as string,
    });
  });

  it('leaves each of several policies its own context, and bounds all of them by a setting', async () => {
    const policies = [...one, { field: 'policies.b', uri: fileUri(starter) }];
    expect(await openEngine({ run: 'eval/a', policies }, withMiB(64))).toEqual({});
    const asked = { policies, maxContextTokens: 700 };
    expect(await openEngine({ run: 'eval/b', ...asked }, withMiB(64))).toEqual({ contextTokens: 700 });
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
