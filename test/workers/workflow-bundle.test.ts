import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';

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
    for (const name of ['train', 'batch', 'rollout']) expect(code).toMatch(new RegExp(`\\b${name}: \\(\\) =>`));
    const { mtimeMs } = statSync(path);
    expect(await buildWorkflowBundle()).toBe(path);
    expect(statSync(path).mtimeMs).toBe(mtimeMs);
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
