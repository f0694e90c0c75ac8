/**
 * `node scripts/yardstick.ts [--json]`: measures how easy the code is to navigate. Source files (without tests), their
 * lines, their imports, and the words of the documents.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SMALL = 20;
const LARGE = 400;
/**
 * The document that describes the walk from the command to the next policy, the heading of the walk, and the paragraphs
 * between which a task's id is drawn and the optimizer makes its step.
 */
const WALK = {
  file: 'docs/architecture.md',
  heading: /^## The walk from task to gradient$/m,
  birth: /^Workflows call activities through/m,
  step: /^The step becomes the next policy:/m,
};

const IMPORT = /^(?:import|export)\s[^;]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)/gmu;

const tracked = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(ROOT, path)));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const linesOf = (text: string): number => text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
const wordsOf = (text: string): number => text.split(/\s+/u).filter(Boolean).length;
const folderOf = (path: string): string => path.split('/')[0] ?? '';

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

interface Source {
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly string[];
}

const sources: readonly Source[] = tracked
  .filter(
    (path) =>
      /\.(?:ts|mts|mjs)$/u.test(path) &&
      !/\.d\.m?ts$/u.test(path) &&
      !path.startsWith('test/') &&
      !path.startsWith('examples/'),
  )
  .map((path) => {
    const text = read(path);
    const imports = [...text.matchAll(IMPORT)].map(([, from, dynamic]) =>
      normalize(join(dirname(path), from ?? dynamic ?? '')),
    );
    return { path, lines: linesOf(text), imports: [...new Set(imports)] };
  });

/** Pairs of top folders that import each other. */
function mutualPairs(): string[] {
  const edges = new Set(
    sources.flatMap(({ path, imports }) => imports.map((to) => `${folderOf(path)} ${folderOf(to)}`)),
  );
  return [...edges].filter((edge) => {
    const [from = '', to = ''] = edge.split(' ');
    return from < to && edges.has(`${to} ${from}`);
  });
}

/**
 * Number of distinct files: in the whole walk, and in its part from a task's id to the optimizer's step. `undefined` if
 * the walk is not documented.
 */
function walk(): { readonly whole: number; readonly toStep: number } | undefined {
  if (!existsSync(join(ROOT, WALK.file))) return undefined;
  const [, after] = read(WALK.file).split(WALK.heading);
  const [section = ''] = after?.split(/^## /mu) ?? [];
  const [, fromBirth] = section.split(WALK.birth);
  const [toStep, rest] = fromBirth?.split(WALK.step) ?? [];
  if (toStep === undefined || rest === undefined) return undefined;
  const filesOf = (text: string) =>
    new Set([...text.matchAll(/\]\(\.\.\/([^)#]+\.(?:ts|mjs))/gu)].map(([, path]) => path)).size;
  return { whole: filesOf(section), toStep: filesOf(toStep) };
}

const importers = new Map(sources.map(({ path }) => [path, 0]));
for (const { imports } of sources) for (const to of imports) importers.set(to, (importers.get(to) ?? 0) + 1);
const counts = sources.map(({ path }) => importers.get(path) ?? 0);
const lines = sources.map((source) => source.lines);
const longest = sources.toSorted((a, b) => b.lines - a.lines);
const tests = tracked.filter((path) => path.startsWith('test/') && path.endsWith('.ts'));
const documents = tracked.filter((path) => path.startsWith('docs/') && path.endsWith('.md'));

const measured = {
  sourceFiles: sources.length,
  sourceLines: lines.reduce((sum, count) => sum + count, 0),
  medianLines: median(lines),
  longest: longest.slice(0, 5).map(({ path, lines: count }) => `${path} ${count}`),
  filesUnder20Lines: lines.filter((count) => count < SMALL).length,
  filesOver400Lines: lines.filter((count) => count > LARGE).length,
  linesOver120Columns: sources.reduce(
    (sum, { path }) =>
      sum +
      read(path)
        .split('\n')
        .filter(({ length }) => length > 120).length,
    0,
  ),
  filesWithOneImporter: counts.filter((count) => count === 1).length,
  meanImporters: Number((counts.reduce((sum, count) => sum + count, 0) / counts.length).toFixed(2)),
  mostImporters: [...importers]
    .toSorted((a, b) => b[1] - a[1])
    .slice(0, 5)
    .map(([path, count]) => `${path} ${count}`),
  foldersThatImportEachOther: mutualPairs(),
  filesOfTheWalk: walk()?.whole ?? 'not written down',
  filesFromTaskToOptimizerStep: walk()?.toStep ?? 'not written down',
  patchedBranches: sources.reduce((sum, { path }) => sum + [...read(path).matchAll(/\bpatched\('/gu)].length, 0),
  testFiles: tests.length,
  testLines: tests.reduce((sum, path) => sum + linesOf(read(path)), 0),
  wordsOfReadme: wordsOf(read('README.md')),
  wordsOfDocs: documents.reduce((sum, path) => sum + wordsOf(read(path)), 0),
};

const { values } = parseArgs({ options: { json: { type: 'boolean' } } });
if (values.json) process.stdout.write(`${JSON.stringify(measured, null, 2)}\n`);
else {
  const width = Math.max(...Object.keys(measured).map(({ length }) => length));
  for (const [name, value] of Object.entries(measured)) {
    process.stdout.write(`${name.padEnd(width)}  ${Array.isArray(value) ? value.join(', ') || 'none' : value}\n`);
  }
}
