/**
 * The import rule: a folder imports from those above it in this list and from itself, never from one below it, so that no
 * two folders import each other. Not asserted: cycles between files of one folder.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BUNDLED } from '../../workers/workflow-bundle.ts';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const order = [
  'protocol',
  'modules',
  'store',
  'connection',
  'sandboxes',
  'trainer',
  'endpoints',
  'agents',
  'tasks',
  'workflows',
  'config',
  'reports',
  'activities',
  'servers',
  'workers',
  'stack',
  'client',
  'recipes',
  'chaos',
  'benchmarks',
  'cli',
];
/** Code that stands outside of the order: what sets the machine up, programs, and what shows how to use it. */
const outside = ['bin', 'dist', 'examples', 'node_modules', 'scripts', 'test'];
const IMPORT = /^(import|export)\s+(type\s+)?[^;]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)/gm;

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
}

export function importsOf(file: string, text: string): Import[] {
  return [...text.matchAll(IMPORT)].map(([, , type, from, dynamic]) => ({
    from: file,
    to: normalize(join(dirname(file), from ?? dynamic ?? '')),
    typeOnly: type !== undefined,
  }));
}

const files = order.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root }));
const imports = files.flatMap((file) => importsOf(file, readFileSync(join(root, file), 'utf8')));
const isBundled = (path: string) => (BUNDLED as readonly string[]).includes(folderOf(path));
const folderOf = (path: string) => path.split('/')[0] ?? '';

describe('imports', () => {
  it('are found at all', () => {
    expect(files.length).toBeGreaterThan(30);
    expect(imports.length).toBeGreaterThan(60);
    expect(
      importsOf('workers/a.ts', "import { x } from '../cli/b.ts';\nimport type {\n  Y,\n} from './y.ts';"),
    ).toEqual([
      { from: 'workers/a.ts', to: 'cli/b.ts', typeOnly: false },
      { from: 'workers/a.ts', to: 'workers/y.ts', typeOnly: true },
    ]);
  });

  it('point up the order alone', () => {
    const wrong = imports.filter(({ from, to }) => order.indexOf(folderOf(to)) > order.indexOf(folderOf(from)));
    expect(wrong.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  it('are looked at in every folder that has code', () => {
    const folders = globSync('*/**/*.ts', { cwd: root, exclude: (name) => outside.includes(name) }).map(folderOf);
    expect([...new Set(folders)].toSorted()).toEqual(order.toSorted());
  });

  it('of what is bundled for workflows come from what its build id covers', () => {
    const wrong = imports.filter(
      ({ from, to, typeOnly }) => isBundled(from) && !isBundled(to) && !typeOnly && !from.startsWith('protocol/'),
    );
    expect(wrong.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  it('never leave the repository', () => {
    expect(imports.filter(({ to }) => relative(root, join(root, to)).startsWith('..'))).toEqual([]);
  });
});
