/** Hunts a stack of the real parts that does not come up, does not heal or leaves something behind. */

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startTimeOf } from '../../../scripts/setup/process-identity.mjs';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import type { ListedStack } from '../../../stack/processes/list-processes.ts';
import { stopStack } from '../../../stack/stop-stack.ts';

const program = join(packageRoot, 'bin', 'longhaul.mjs');
const { TEMPORAL_ADDRESS: _address, LONGHAUL_HOME: _home, LONGHAUL_ROLES: _roles, ...env } = process.env;
let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-up-'));
});
afterEach(async () => {
  await stopStack({ home: join(directory, '.longhaul') });
  rmSync(directory, { recursive: true, force: true });
});

function longhaul(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args, '--json'], {
    cwd: directory,
    env,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`longhaul ${args.join(' ')} ended with ${status}: ${stderr}`);
  return JSON.parse(stdout) as Record<string, unknown>;
}

const ps = () => longhaul('ps') as unknown as ListedStack;

test('every role comes up, heals after SIGKILL, and is gone after down', async () => {
  expect(longhaul('up')).toMatchObject({ started: true, namespace: 'default' });
  expect(longhaul('up')).toMatchObject({ started: false });
  const before = ps();
  expect(before).toMatchObject({ status: 'up' });
  expect(before.processes.map((one) => `${one.name} ${one.state}`)).toEqual(
    ['temporal', 'orchestrator', 'init', 'agent-run', 'reward', 'gpu'].map((name) => `${name} ready`),
  );
  const victims = before.processes.filter((one) => one.name !== 'temporal');
  for (const { pid } of victims) process.kill(pid ?? 0, 'SIGKILL');
  await vi.waitFor(
    () => {
      const restarts = new Map(
        before.processes.map((one) => [one.name, one.restarts + (victims.includes(one) ? 1 : 0)]),
      );
      for (const one of ps().processes) expect(one).toMatchObject({ state: 'ready', restarts: restarts.get(one.name) });
    },
    { timeout: 120_000, interval: 1_000 },
  );
  const after = ps().processes;
  expect(longhaul('down')).toMatchObject({ wasUp: true });
  for (const { pid } of [...victims, ...after]) expect(startTimeOf(pid ?? 0)).toBeUndefined();
  expect(ps()).toMatchObject({ status: 'down', processes: [] });
});

test('attached, Ctrl-C drains and stops it, and prints how to continue', async () => {
  const child = spawn(process.execPath, [program, 'up', '--roles', 'init'], {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  await vi.waitFor(() => expect(said).toContain('Ctrl-C'), { timeout: 120_000, interval: 100 });
  child.kill('SIGINT');
  expect(await ended).toBe(130);
  expect(said).toContain('npx longhaul up');
  expect(ps().status).toBe('down');
});

test('Ctrl-C while it starts reports that it is still starting, and how to stop it', async () => {
  const child = spawn(process.execPath, [program, 'up', '--roles', 'init'], {
    cwd: directory,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  await vi.waitFor(() => expect(said).toContain('starting the stack'), { timeout: 120_000, interval: 10 });
  child.kill('SIGINT');
  expect(await ended).toBe(130);
  expect(said).toMatch(/longhaul: interrupted while the stack was starting.*stop it with: npx longhaul down/);
  // The supervisor may not have come as far as its lock yet.
  await vi.waitFor(() => expect(ps().status).toBe('up'), { timeout: 120_000, interval: 500 });
});
