/** Hunts a worker that nobody knows of and nobody ends: one whose supervisor died before it wrote it down. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { startPrivateServer } from '../../workers/temporal-server/private-server.ts';
import { watchPlace } from '../../workers/watch-place.ts';

let dir: string;
let ready: string;
let reasons: string[];
let end: () => void;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-place-'));
  ready = join(dir, 'gpu.json');
  writeFileSync(ready, JSON.stringify({ pid: process.pid }));
  reasons = [];
  end = watchPlace(ready, (reason) => reasons.push(reason), 5);
});
afterEach(() => {
  end();
  rmSync(dir, { recursive: true, force: true });
});

it('a worker whose file is its own stays, also while the file is half-written', async () => {
  writeFileSync(ready, '{"pi');
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(reasons).toEqual([]);
});

it('ends once when another process has its place', async () => {
  writeFileSync(ready, JSON.stringify({ pid: process.pid + 1 }));
  await expect.poll(() => reasons).toEqual(['another process has its place in the stack']);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(reasons).toHaveLength(1);
});

it('ends when nobody has it any more: the stack is down, or its folder gone', async () => {
  rmSync(dir, { recursive: true });
  await expect.poll(() => reasons).toEqual(['its stack is down']);
});

it('a watch that was ended says nothing', async () => {
  end();
  rmSync(ready);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(reasons).toEqual([]);
});

it('a real worker ends when another one has its place, and leaves the file to that one', async () => {
  const server = await startPrivateServer(dir);
  const env = { ...process.env, TEMPORAL_ADDRESS: server.address, LONGHAUL_HOME: dir, LONGHAUL_WORKER_NAME: 'second' };
  const worker = spawn(process.execPath, [join(packageRoot, 'workers', 'main.ts'), '--role', 'orchestrator'], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(worker, 'exit');
  try {
    let said = '';
    worker.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const place = join(dir, 'ready', 'second.json');
    await expect.poll(() => existsSync(place), { timeout: 60_000, interval: 100 }).toBe(true);
    expect(JSON.parse(readFileSync(place, 'utf8'))).toMatchObject({ pid: worker.pid, role: 'orchestrator' });
    writeFileSync(place, JSON.stringify({ pid: process.pid }));
    await expect.poll(() => said, { timeout: 30_000 }).toMatch(/this worker ends: another process has its place in the stack/);
    expect((await ended)[0]).toBe(0);
    expect(JSON.parse(readFileSync(place, 'utf8'))).toEqual({ pid: process.pid });
  } finally {
    if (worker.exitCode === null) worker.kill('SIGKILL');
    await server.stop();
  }
}, 150_000);
