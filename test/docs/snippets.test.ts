/** Hunts TypeScript in the documentation that does not compile against the library as it is, or that it refuses. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bundleModules } from '../../modules/bundle.ts';
import { importBundle } from '../../modules/import-bundle.ts';
import { documents, fences, type Piece, root } from './markdown.ts';

const BROKEN = 'broken-on-purpose-1.ts';
const snippets = documents().flatMap((document) => fences(document, 'ts'));
const fileOf = ({ file, line }: Piece) => `${file.replaceAll(/[^\w]/g, '-')}-${line}.ts`;
const dir = mkdtempSync(join(tmpdir(), 'longhaul-docs-'));
let output = '';

/** Outside of the repository, where a reader's program is: `longhaul` is the library's entry. */
function writeProject(): void {
  const compilerOptions = { noEmit: true, paths: { longhaul: [join(root, 'client/index.ts')] } };
  writeFileSync(
    join(dir, 'tsconfig.json'),
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions,
      include: [],
      files: [BROKEN, ...snippets.map(fileOf)],
    }),
  );
  writeFileSync(join(dir, 'package.json'), '{ "type": "module" }');
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'));
  writeFileSync(
    join(dir, BROKEN),
    "import { Longhaul } from 'longhaul';\nconst steps: string = Longhaul;\nexport { steps };\n",
  );
  // Empty lines before it: the compiler's line is the document's. The export makes a module of what imports nothing.
  for (const snippet of snippets)
    writeFileSync(join(dir, fileOf(snippet)), `${'\n'.repeat(snippet.line - 1)}${snippet.text}\nexport {};\n`);
}

beforeAll(async () => {
  writeProject();
  const args = [join(root, 'node_modules/typescript/bin/tsc'), '-p', dir, '--pretty', 'false'];
  output = await new Promise((resolve) =>
    execFile(process.execPath, args, { cwd: dir }, (_error, stdout, stderr) => resolve(stdout + stderr)),
  );
});
afterAll(() => rmSync(dir, { recursive: true }));

const errorsOf = (file: string) => output.split('\n').filter((line) => line.startsWith(`${file}(`));

it('the compiler sees the library: it refuses what is wrong, and says nothing else', () => {
  expect(errorsOf(BROKEN)).toEqual([expect.stringMatching(/\(2,7\): error TS2322: .*Longhaul/) as string]);
  const known = [BROKEN, ...snippets.map(fileOf)];
  expect(
    output
      .split('\n')
      .filter((line) => line !== '' && !/^\s/.test(line) && !known.some((file) => line.startsWith(`${file}(`))),
  ).toEqual([]);
});

it.each(snippets)('$file:$line compiles', (snippet) => {
  expect(errorsOf(fileOf(snippet))).toEqual([]);
});

const definitions = snippets.filter(({ text }) => /\bdefine[A-Z]\w*\(/.test(text));

it.each(definitions)('$file:$line defines what a run may load', async (snippet) => {
  const bundle = await bundleModules([join(dir, fileOf(snippet))]);
  await expect(importBundle(bundle, { folder: dir })).resolves.toBeUndefined();
});

it('there are snippets at all, and definitions among them', () => {
  expect(definitions.length).toBeGreaterThan(0);
});
