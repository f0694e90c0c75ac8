/** Hunts a bench that continues after Ctrl-C, or leaves its server or its folder. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { listProcessesIn } from '../support/processes-in.ts';
import { packageRoot } from '../../scripts/setup/paths.mjs';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-interrupted-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('Ctrl-C ends it at once, and nothing of it is left', async () => {
  const program = join(packageRoot, 'bin', 'longhaul.mjs');
  const child = spawn(process.execPath, [program, 'bench', 'orchestration', '--rollouts', '100000'], {
    env: { ...process.env, TMPDIR: dir },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  await vi.waitFor(() => expect(listProcessesIn(dir)).not.toEqual([]), { timeout: 120_000, interval: 100 });
  child.kill('SIGINT');
  expect(await ended).toBe(130);
  expect(said).toContain('longhaul: interrupted: nothing was measured');
  await vi.waitFor(
    () =>
      expect([listProcessesIn(dir), readdirSync(dir).filter((name) => name.startsWith('longhaul-bench-'))]).toEqual([
        [],
        [],
      ]),
    { timeout: 120_000 },
  );
});
