/** Hunts contexts that are not told of, or that are refused without their numbers, before anything starts. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { longhaul } from '../../support/cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-model-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const starter = join(packageRoot, 'examples', 'starter');

it('`model` shows the size of a policy, its context here, and the memory for it', async () => {
  const { code, stdout } = await longhaul(['model', starter, '--json'], dir);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    family: 'qwen3',
    vocabulary: 512,
    context: { tokens: 1024, configured: 1024, bytesPerToken: 2048 },
  });
});

it('`train --dry-run`, `check`, `eval` and `rollout` refuse a context that the policy does not have', async () => {
  const refused = async (...args: string[]) => {
    const { code, stderr } = await longhaul(args, dir);
    expect(code).toBe(2);
    return stderr;
  };
  const long = ['--set', 'agent.maxContextTokens=2000'];
  const run = join(packageRoot, 'examples', 'quickstart.yaml');
  const sweep = join(dir, 'eval.yaml');
  writeFileSync(sweep, 'eval: e\ntasks: { name: swe-mini, count: 2 }\npolicies: [starter]\npassAt: [1]\n');
  const most = 'give at most 1024 for';
  expect(await refused('train', run, '--dry-run', ...long)).toContain(`${most} policy.base`);
  expect(await refused('train', run, '--dry-run', '--set', 'policy.maxContextTokens=1025')).toContain(
    'policy.maxContextTokens: 1025',
  );
  expect(await refused('check', run, '--tasks', '1', ...long)).toContain(`${most} policy.base`);
  expect(await refused('check', sweep, '--tasks', '1', ...long)).toContain(`${most} policies.starter`);
  expect(await refused('eval', sweep, ...long)).toContain(`${most} policies.starter`);
  const single = ['rollout', '--policy', 'starter', '--task', 'swe-mini-held-out-0'];
  expect(await refused(...single, '--max-context-tokens', '2000')).toContain(
    'give at most 1024: max_position_embeddings',
  );
}, 120_000);
