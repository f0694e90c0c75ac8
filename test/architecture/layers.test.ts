/**
 * The import rule: cli, dashboard → workers → workflows, activities → agents, tasks, trainer, sandboxes → store.
 * Imports point down this list or stay in their layer. Not asserted: cycles between files of one layer.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const layers = [
  ['cli', 'dashboard'],
  ['workers'],
  ['workflows', 'activities'],
  ['agents', 'tasks', 'trainer', 'sandboxes'],
  ['store'],
];
const layerOf = (folder: string) => layers.findIndex((layer) => layer.includes(folder));
const folders = layers.flat();
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

const files = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root }));
const imports = files.flatMap((file) => importsOf(file, readFileSync(join(root, file), 'utf8')));
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

  it('never point up the layers', () => {
    const wrong = imports.filter(({ from, to }) => {
      const target = layerOf(folderOf(to));
      return target >= 0 && target < layerOf(folderOf(from));
    });
    expect(wrong.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  it('of workflows are types and pure functions alone', () => {
    const wrong = imports.filter(
      ({ from, to, typeOnly }) => folderOf(from) === 'workflows' && folderOf(to) !== 'workflows' && !typeOnly,
    );
    expect(wrong.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  it('never leave the repository', () => {
    expect(imports.filter(({ to }) => relative(root, join(root, to)).startsWith('..'))).toEqual([]);
  });
});
