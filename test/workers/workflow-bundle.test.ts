import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildWorkflowBundle, sourceHash } from '../../workers/workflow-bundle.ts';

describe('the workflow bundle', () => {
  const cache = mkdtempSync(join(tmpdir(), 'longhaul-bundle-'));
  const before = process.env['LONGHAUL_CACHE'];
  let path: string;

  beforeAll(async () => {
    process.env['LONGHAUL_CACHE'] = cache;
    path = await buildWorkflowBundle();
  }, 60_000);
  afterAll(() => {
    if (before === undefined) delete process.env['LONGHAUL_CACHE'];
    else process.env['LONGHAUL_CACHE'] = before;
    rmSync(cache, { recursive: true });
  });

  it('exports every workflow and is built once', async () => {
    const code = readFileSync(path, 'utf8');
    for (const name of ['train', 'batch', 'rollout', 'evalSweep', 'unit']) expect(code).toMatch(new RegExp(`\\b${name}: \\(\\) =>`));
    const { mtimeMs } = statSync(path);
    expect(await buildWorkflowBundle()).toBe(path);
    expect(statSync(path).mtimeMs).toBe(mtimeMs);
  });

  it('is another one when a file below its folders has changed', async () => {
    const root = join(cache, 'root');
    for (const folder of ['workflows/deep/er', 'agents', 'tasks', 'trainer', 'store']) mkdirSync(join(root, folder), { recursive: true });
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
});
