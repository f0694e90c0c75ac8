/**
 * Hunts bundles of users' modules that are not what the files say: other text for the same files, parts that cannot be
 * bundled and are left out in silence, places of the bundle instead of the user's own.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { toolsOf } from '../../agents/tools/registry.ts';
import { bundleModules } from '../../modules/bundle.ts';
import { importBundle } from '../../modules/import-bundle.ts';
import { messageWithPlace } from '../../modules/own-frame.ts';
import { withSources } from '../../modules/source-places.ts';

let dir: string;
let cache: string;
beforeAll(() => {
  cache = mkdtempSync(join(tmpdir(), 'longhaul-bundle-cache-'));
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-bundle (1) %41#-')));
});
afterAll(() => {
  for (const folder of [dir, cache]) rmSync(folder, { recursive: true, force: true });
});

function written(name: string, text: string): string {
  const path = join(dir, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  return path;
}

const toolText = (name: string, run: string, head = ''): string =>
  `import { defineTool } from 'longhaul';\n${head}\ndefineTool({\n  name: '${name}',\n  description: 'x',\n  parameters: {},\n  required: [],\n  run: async () => ${run},\n});\n`;

/** What the tool of a module answers. */
async function answerOf(name: string, ...paths: string[]): Promise<string> {
  const bundle = await bundleModules(paths);
  await importBundle(bundle, { folder: cache });
  const tool = toolsOf(bundle.digest).get(name);
  return (await tool?.run({ name, arguments: {} }, {} as never, { callId: 'c', timeoutMs: 1 }))?.content ?? '';
}

it('the same files give the same digest, and each change of what is imported another one', async () => {
  const part = written('same/part.ts', 'export const n: number = 1;\n');
  const path = written('same/a.ts', toolText('same', 'String(n)', "import { n } from './part.ts';"));
  const [first, again] = [await bundleModules([path]), await bundleModules([path])];
  expect(again.digest).toBe(first.digest);
  writeFileSync(part, 'export const n: number = 2;\n');
  expect((await bundleModules([path])).digest).not.toBe(first.digest);
});

it('packages, JSON and CommonJS that asks for Node’s modules are part of the bundle', async () => {
  written('npm/node_modules/old/package.json', '{"name":"old","main":"index.js"}');
  written(
    'npm/node_modules/old/index.js',
    "const { sep } = require('path');\nmodule.exports = { sep, here: __dirname };\n",
  );
  written('npm/data.json', '{"word":"data"}');
  const head = "import old from 'old';\nimport data from './data.json' with { type: 'json' };";
  const path = written('npm/a.ts', toolText('npm', '[data.word, old.sep, old.here].join(" ")', head));
  const answer = await answerOf('npm', path);
  rmSync(join(dir, 'npm', 'node_modules'), { recursive: true });
  expect(answer).toBe(`data / ${join(dir, 'npm', 'node_modules', 'old')}`);
});

it('a module is told its own place, and may wait at its top', async () => {
  const head = 'const waited = await Promise.resolve("waited");';
  const path = written(
    'place/a.ts',
    toolText(
      'place',
      '[waited, import.meta.dirname, import.meta.filename, new URL("x", import.meta.url).href].join(" ")',
      head,
    ),
  );
  expect(await answerOf('place', path)).toBe(
    `waited ${join(dir, 'place')} ${path} ${pathToFileURL(join(dir, 'place', 'x')).href}`,
  );
});

it('an exception names the file and line of the module that threw it, also in its stack', async () => {
  const below = written(
    'throws/part.ts',
    'interface N { n: number }\n\nexport const fail = (given: N) => {\n  throw new RangeError(`no ${given.n}`);\n};\n',
  );
  const path = written(
    'throws/a.ts',
    toolText('throws', '((): never => fail({ n: 3 }))()', "import { fail } from './part.ts';"),
  );
  const error: unknown = await answerOf('throws', path).catch((thrown: unknown) => thrown);
  expect(messageWithPlace(error)).toBe(`no 3 (${below}:4)`);
  const stack = withSources((error as Error).stack ?? '');
  expect(stack).toContain(`${below}:4`);
  expect(stack).toContain(`${path}:8`);
  expect(stack).not.toContain('.mjs');
});

it.each([
  ['a syntax error', '\nconst a: = 1;\n', /Unexpected "=" \(.*refused\.ts:2\)/],
  ['a native addon', "\nimport a from './a.node';\nexport default a;\n", /native addon.* \(.*refused\.ts:2\)/],
  ['a package that loads one', "import 'bindings';\n", /bindings loads a native addon/],
  [
    'a package that is missing',
    "import 'no-such-package-here';\n",
    /Could not resolve "no-such-package-here" \(.*refused\.ts:1\)/,
  ],
  ['a part that longhaul does not have', "import 'longhaul/tasks';\n", /longhaul has no such part/],
])('%s is refused, with its place', async (_, text, message) => {
  await expect(bundleModules([written('refused.ts', text)])).rejects.toThrow(message);
});

it('a missing file is refused by its name', async () => {
  await expect(bundleModules([join(dir, 'none.ts')])).rejects.toThrow(/modules: ".*none\.ts".*there is no such file/);
});
