/** Hunts options that `rollout --attach` accepts and ignores. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-attach-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function attach(...args: string[]) {
  let out = '';
  // No server is reachable, so a refusal comes before any call.
  const env = { LONGHAUL_HOME: join(dir, 'home'), TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    env,
    cwd: dir,
    signal: new AbortController().signal,
  };
  const exitCode = await runCommandLine(['rollout', '--attach', 'rollout/x', ...args, '--json'], around);
  return { exitCode, error: (JSON.parse(out) as { error?: Record<string, unknown> }).error };
}

it.each([
  [['--seed', '3'], '--seed', '3'],
  [['--task', 'swe-mini-held-out-0'], '--task', 'swe-mini-held-out-0'],
  [['--policy', 'starter'], '--policy', 'starter'],
  [['--max-turns', '30'], '--max-turns', '30'],
  [['--api-key-env', 'KEY'], '--api-key-env', '(not shown)'],
])('beside --attach %j has no effect, and is refused', async (args, field, value) => {
  expect(await attach(...args)).toMatchObject({
    exitCode: 2,
    error: {
      field,
      value,
      remedy: 'leave it out: with --attach a rollout keeps the settings that it was started with',
    },
  });
});

it('is accepted alone', async () => {
  expect(await attach()).toMatchObject({ exitCode: 3, error: { name: 'Unreachable' } });
});
