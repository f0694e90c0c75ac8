import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as versioned from '../../workflows/versioned.ts';
import * as unversioned from '../../workflows/index.ts';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { buildWorkflowBundle, sourceHash } from '../../workers/workflow-bundle.ts';

describe('the workflow bundle', () => {
  const cache = mkdtempSync(join(tmpdir(), 'longhaul-bundle-'));
  const before = process.env['LONGHAUL_CACHE'];
  let path: string;

  beforeAll(async () => {
    process.env['LONGHAUL_CACHE'] = cache;
    path = await buildWorkflowBundle();
  });
  afterAll(() => {
    if (before === undefined) delete process.env['LONGHAUL_CACHE'];
    else process.env['LONGHAUL_CACHE'] = before;
    rmSync(cache, { recursive: true });
  });

  it('exports every workflow and is built once', async () => {
    const code = readFileSync(path, 'utf8');
    for (const name of ['train', 'batch', 'rollout', 'evalSweep', 'unit'])
      expect(code).toMatch(new RegExp(`\\b${name}: \\(\\) =>`));
    const { mtimeMs } = statSync(path);
    expect(await buildWorkflowBundle()).toBe(path);
    expect(statSync(path).mtimeMs).toBe(mtimeMs);
  });

  it('has the same workflows where builds run side by side', () => {
    expect(Object.keys(versioned).toSorted()).toEqual(Object.keys(unversioned).toSorted());
  });

  it('is another one when a file below its folders has changed', async () => {
    const root = join(cache, 'root');
    for (const folder of ['workflows/deep/er', 'agents', 'tasks', 'trainer', 'store'])
      mkdirSync(join(root, folder), { recursive: true });
    const file = join(root, 'workflows', 'deep', 'er', 'one.ts');
    writeFileSync(file, 'export {};');
    const first = await sourceHash(root);
    expect(await sourceHash(root)).toBe(first);
    writeFileSync(file, 'export const other = 1;');
    expect(await sourceHash(root)).not.toBe(first);
  });

  it('holds nothing that does I/O: no Node built-in, no engine, no schema library, no activity', () => {
    const code = readFileSync(path, 'utf8').replace(/\/\/# sourceMappingURL=.*/s, '');
    expect(code.match(/(?:require|import)\(\s*["'](?:node:)?(?:fs|net|child_process|crypto|os|sqlite)/g)).toBeNull();
    const modules = [...code.matchAll(/^\/\*\*\*\/ "(\.\/[^"]+)"/gm)].map((match) => match[1] ?? '');
    expect(modules.length).toBeGreaterThan(50);
    const allowed = /^\.\/(workflows|node_modules\/(@temporalio\/(workflow|common|worker)|nexus-rpc|long|ms))\//;
    expect(modules.filter((name) => !allowed.test(name))).toEqual([]);
  });

  /** Why: a module of its own for each workflow was most of what a workflow that is kept in memory took. */
  it('loads its modules once for all workflows, and none of them holds state', () => {
    expect(readFileSync(path, 'utf8')).toMatch(/preloadModules\(\) \{\s+__webpack_require__\([^)]*workflows\/index/);
    const state =
      /^(?:export )?(?:(?:let|var) |const [^=]+= (?:new \w+(?:<.*>)?\(\)|\[\]|\{\}|\/.*\/[a-z]*[gy][a-z]*);)/m;
    const holding = readdirSync(join(packageRoot, 'workflows'), { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.ts') && state.test(readFileSync(join(packageRoot, 'workflows', file), 'utf8')),
    );
    expect(holding).toEqual([]);
  });
});
