/**
 * Hunts a bundle that runs although its bytes are damaged or nobody opened it, and definitions that leak into another.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { toolNamed, toolsOf } from '../../agents/tools/registry.ts';
import { type Bundle, bundleModules } from '../../modules/bundle.ts';
import {
  cacheModulesOf,
  importBundle,
  importCached,
  importStored,
  type ModulesRecord,
} from '../../modules/import-bundle.ts';
import { keys } from '../../protocol/record-keys.ts';
import { policyLosses } from '../../trainer/algorithms/losses/registry.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-import-bundle-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

let made = 0;
/** A bundle that no other test has imported. */
async function bundleOf(text: string): Promise<Bundle> {
  made += 1;
  const path = join(dir, `m${made}.ts`);
  writeFileSync(path, text);
  return bundleModules([path]);
}
const tool = (name: string, description: string) =>
  `import { defineTool } from 'longhaul';\ndefineTool({ name: '${name}', description: '${description}', parameters: {}, required: [], run: async () => '' });\n`;

it('two bundles with the same names live beside each other, and the process without them knows neither', async () => {
  const [one, other] = [await bundleOf(tool('twice', 'one')), await bundleOf(tool('twice', 'other'))];
  for (const bundle of [one, other]) await importBundle(bundle, { folder: dir });
  await importBundle(one, { folder: dir });
  const said = (digest?: string) => toolsOf(digest).get('twice')?.schema.function.description;
  expect([said(one.digest), said(other.digest), said()]).toEqual(['one', 'other', undefined]);
  expect(toolsOf(one.digest).has('bash')).toBe(true);
  expect(() => toolNamed('twise', one.digest)).toThrow(/did you mean twice\?/);
});

it.each([
  ['environment', "defineEnvironment({ name: 'twice', open: () => ({}) })"],
  ['loss', "defineLoss('twice', { correctable: true, terms: () => undefined })"],
  ['advantage', "defineAdvantage('twice', { over: 'group', estimate: (rewards) => rewards })"],
])('a second %s of the same name in a bundle is refused, with the file', async (what, definition) => {
  const text = `import { defineAdvantage, defineEnvironment, defineLoss } from 'longhaul';\n${definition};\n${definition};\n`;
  await expect(importBundle(await bundleOf(text), { folder: dir })).rejects.toThrow(
    new RegExp(`${what} twice is already defined, by .*m\\d+\\.ts itself: give another name`),
  );
});

it.each([
  ['a built-in name', `${tool('bash', 'mine')}`, /tool bash is already defined, by Longhaul: give another name/],
  [
    'a name twice',
    tool('again', 'a') + tool('again', 'b').split('\n')[1],
    /tool again is already defined, by .*m\d+\.ts itself/,
  ],
  ['an exception', "\nthrow new Error('not today');\n", /Error: not today \(.*m\d+\.ts:2\)/],
])('%s fails the import', async (_, text, message) => {
  await expect(importBundle(await bundleOf(text), { folder: dir })).rejects.toThrow(message);
});

it('an import that never ends fails after its time', async () => {
  const bundle = await bundleOf('await new Promise(() => setInterval(() => undefined, 1000).unref());\n');
  await expect(importBundle(bundle, { folder: dir, withinMs: 50 })).rejects.toThrow(/did not load within 0\.05 s/);
});

it('bytes that are not those of the digest never run: a damaged file is written again, a damaged object is refused', async () => {
  const bundle = await bundleOf(tool('whole', 'whole'));
  const file = join(dir, `${bundle.digest.slice('sha256:'.length)}.mjs`);
  const damaged = Buffer.from("globalThis.hasRun = 'damaged';\n");
  await expect(importBundle({ ...bundle, code: damaged }, { folder: dir })).rejects.toThrow(/is damaged/);
  writeFileSync(file, damaged);
  await importBundle(bundle, { folder: dir });
  expect(readFileSync(file)).toEqual(Buffer.from(bundle.code));
  expect(globalThis).not.toHaveProperty('hasRun');
});

it('a thread finds the losses of a bundle in the cache, each run its own, and nothing else there', async () => {
  const store = openSqliteStore(join(dir, 'store'));
  const loss = (value: number) =>
    `import { defineLoss } from 'longhaul';\ndefineLoss('mine', { correctable: true, terms: ({ mask }) => ({ values: mask.map(() => ${value}), slopes: mask.map(() => 0), metrics: {} }) });\n`;
  try {
    const values: unknown[] = [];
    for (const bundle of [await bundleOf(loss(1)), await bundleOf(loss(2))]) {
      const { digest, code, paths } = bundle;
      await expect(importCached(digest, dir)).rejects.toThrow(/is missing/);
      await store.putObject(code);
      await store.putOnce<ModulesRecord>(keys.modules(digest), { digest, paths, at: '' });
      await store.putOnce(keys.run(digest), { modules: digest });
      await cacheModulesOf(digest, store, dir);
      await importCached(digest, dir);
      const { values: said } = policyLosses.get('mine', digest).terms({ mask: [1] } as never, {} as never);
      values.push(...said);
    }
    expect(values).toEqual([1, 2]);
    expect(policyLosses.has('mine')).toBe(false);
  } finally {
    await store.close();
  }
});

it('an object of the store runs only if a run or an eval was opened with it', async () => {
  const store = openSqliteStore(join(dir, 'store'));
  try {
    const { digest, code, paths } = await bundleOf(tool('stored', 'stored'));
    await store.putObject(code);
    await expect(importStored(digest, store, dir)).rejects.toMatchObject({ name: 'ModulesUnknown' });
    await store.putOnce<ModulesRecord>(keys.modules(digest), { digest, paths, at: '' });
    await importStored(digest, store, dir);
    expect(toolsOf(digest).has('stored')).toBe(true);
  } finally {
    await store.close();
  }
});
