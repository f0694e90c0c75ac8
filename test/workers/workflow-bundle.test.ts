import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as versioned from '../../workflows/versioned.ts';
import * as unversioned from '../../workflows/index.ts';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { BUNDLED, buildWorkflowBundle, sourceHash } from '../../workers/workflow-bundle.ts';

/** Paths of the modules in a bundle's code, from the root. */
const modulesOf = (code: string): string[] =>
  [...code.matchAll(/^\/\*\*\*\/ "(\.\/[^"]+)"/gm)].map((match) => match[1] ?? '');

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
    for (const name of ['train', 'batch', 'rollout', 'evalSweep'])
      expect(code).toMatch(new RegExp(`\\b${name}: \\(\\) =>`));
    const { mtimeMs } = statSync(path);
    expect(await buildWorkflowBundle()).toBe(path);
    expect(statSync(path).mtimeMs).toBe(mtimeMs);
  });

  it('has the same workflows where builds run side by side', () => {
    expect(Object.keys(versioned).toSorted()).toEqual(Object.keys(unversioned).toSorted());
  });

  it.each(BUNDLED)('is another one when a file below %s has changed', async (folder) => {
    const root = join(cache, `root-${folder}`);
    for (const each of BUNDLED) mkdirSync(join(root, each, 'deep', 'er'), { recursive: true });
    const file = join(root, folder, 'deep', 'er', 'one.ts');
    writeFileSync(file, 'export {};');
    const first = await sourceHash(root);
    expect(await sourceHash(root)).toBe(first);
    writeFileSync(file, 'export const other = 1;');
    expect(await sourceHash(root)).not.toBe(first);
  });

  it('holds nothing that does I/O: no Node built-in, no engine, no schema library, no activity', () => {
    const code = readFileSync(path, 'utf8').replace(/\/\/# sourceMappingURL=.*/s, '');
    expect(code.match(/(?:require|import)\(\s*["'](?:node:)?(?:fs|net|child_process|crypto|os|sqlite)/g)).toBeNull();
    const modules = modulesOf(code);
    expect(modules.length).toBeGreaterThan(50);
    const allowed =
      /^\.\/(protocol|workflows|node_modules\/(@temporalio\/(workflow|common|worker)|nexus-rpc|long|ms))\//;
    expect(modules.filter((name) => !allowed.test(name))).toEqual([]);
  });

  /** Why: when each workflow had its own modules, they took most of the memory of a cached workflow. */
  it('loads its modules once for all workflows, and none of them holds state', () => {
    expect(readFileSync(path, 'utf8')).toMatch(/preloadModules\(\) \{\s+__webpack_require__\([^)]*workflows\/index/);
    const state =
      /^(?:export )?(?:(?:let|var) |const [^=]+= (?:new \w+(?:<.*>)?\(\)|\[\]|\{\}|\/.*\/[a-z]*[gy][a-z]*);)/m;
    const sources = modulesOf(readFileSync(path, 'utf8')).filter((name) => !name.startsWith('./node_modules/'));
    const holding = sources.filter((name) => state.test(readFileSync(join(packageRoot, name), 'utf8')));
    expect(sources.length).toBeGreaterThan(50);
    expect(holding).toEqual([]);
  });
});
