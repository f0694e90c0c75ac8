/**
 * Hunts a worker that no supervisor knows and ends, since its supervisor died before it recorded it; and a worker that
 * is started by hand and ends the stack's own worker.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
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

it('a worker whose file is its own says again and again that it works', async () => {
  const before = new Date(Date.now() - 600_000);
  utimesSync(ready, before, before);
  await expect.poll(() => Date.now() - statSync(ready).mtimeMs).toBeLessThan(300_000);
  expect(JSON.parse(readFileSync(ready, 'utf8'))).toEqual({ pid: process.pid });
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
  const worker = spawn(process.execPath, [join(packageRoot, 'workers', 'main.ts'), '--role', 'orchestrator'], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(worker, 'exit');
  try {
    let said = '';
    worker.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const place = join(dir, 'ready', 'second.json');
    await expect.poll(() => existsSync(place), { interval: 100 }).toBe(true);
    expect(JSON.parse(readFileSync(place, 'utf8'))).toMatchObject({ pid: worker.pid, role: 'orchestrator' });
    writeFileSync(place, JSON.stringify({ pid: process.pid }));
    await expect.poll(() => said).toMatch(/this worker ends: another process has its place in the stack/);
    expect((await ended)[0]).toBe(0);
    expect(JSON.parse(readFileSync(place, 'utf8'))).toEqual({ pid: process.pid });
  } finally {
    if (worker.exitCode === null) worker.kill('SIGKILL');
    await server.stop();
  }
});

it("a worker that is started by hand has a place of its own, and is refused that of the stack's own", async () => {
  const server = await startPrivateServer(dir);
  const inherited = { ...process.env, TEMPORAL_ADDRESS: server.address, LONGHAUL_HOME: dir };
  const start = (program: string[], name?: string) => {
    const child = spawn(process.execPath, [...program, '--role', 'orchestrator'], {
      env: { ...inherited, ...(name === undefined ? {} : { LONGHAUL_WORKER_NAME: name }) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exit = once(child, 'exit');
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    return {
      child,
      exit,
      said: () => said,
      place: join(dir, 'ready', `${name ?? `orchestrator-by-hand-${child.pid}`}.json`),
    };
  };
  const main = [join(packageRoot, 'workers', 'main.ts')];
  const until = (path: string) => expect.poll(() => existsSync(path), { interval: 100 }).toBe(true);
  const own = start(main, 'orchestrator');
  await until(own.place);
  const written = readFileSync(own.place, 'utf8');
  const byHand = start([join(packageRoot, 'bin', 'longhaul.mjs'), 'worker']);
  const refused = start(main, 'orchestrator');
  try {
    // The program of the command line runs the worker in a process of its own.
    await expect
      .poll(() => readdirSync(join(dir, 'ready')).some((name) => name.startsWith('orchestrator-by-hand-')), {
        interval: 100,
      })
      .toBe(true);
    expect((await refused.exit)[0]).toBe(1);
    expect(refused.said()).toMatch(
      new RegExp(
        `the worker with process id ${own.child.pid} already has the ready file .*orchestrator\\.json: unset LONGHAUL_WORKER_NAME`,
      ),
    );
    expect([own.child.exitCode, own.said(), readFileSync(own.place, 'utf8')]).toEqual([null, '', written]);
    byHand.child.kill('SIGTERM');
    await byHand.exit;
    await expect.poll(() => readdirSync(join(dir, 'ready')), { interval: 100 }).toEqual(['orchestrator.json']);
    own.child.kill('SIGTERM');
    expect((await own.exit)[0]).toBe(0);
  } finally {
    for (const { child } of [own, byHand, refused]) if (child.exitCode === null) child.kill('SIGKILL');
    await server.stop();
  }
});
