/**
 * Hunts a command that outlives the process that started it: after a signal to `npx`, whose shell passes none on, or to
 * a launcher, or after the death of either. The processes are real. Asserted: the command ends in order, with the right
 * exit code if a process waits for it, and nothing of it is left.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { listProcessesIn } from '../support/processes-in.ts';

const soon = { timeout: 60_000, interval: 100 };
const root = join(import.meta.dirname, '../..');
const program = join(root, 'bin/longhaul.mjs');
const dirs: string[] = [];
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

/** A server as users start it, found among the processes by its folder's name; resolves once it answers. */
async function serving(
  command: string,
  args: readonly string[],
  detached = false,
): Promise<{ child: ChildProcess; ended: Promise<unknown[]>; dir: string; said: () => string }> {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-signals-'));
  dirs.push(dir);
  let text = '';
  const child = spawn(command, [...args, 'serve', '--model', 'starter', '--served-name', dir, '--port', '0'], {
    cwd: root,
    detached,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part: Buffer) => {
      text += part.toString();
    });
  const ended = once(child, 'exit');
  await vi.waitFor(() => expect(text).toContain('tokens of context'), { timeout: 120_000, interval: 100 });
  return { child, ended, dir, said: () => text };
}

async function leavesNothing({ dir, said }: Awaited<ReturnType<typeof serving>>): Promise<void> {
  await vi.waitFor(() => expect(listProcessesIn(dir)).toEqual([]), soon);
  await vi.waitFor(() => expect(said()).toContain('stopping: open requests finish'), soon);
}

it.each(['SIGTERM', 'SIGHUP', 'SIGKILL'] as const)('npx that receives %s leaves nothing', async (signal) => {
  const server = await serving('npx', ['longhaul']);
  server.child.kill(signal);
  await leavesNothing(server);
});

it('Ctrl-C in the terminal of npx, which all of its processes receive, leaves nothing', async () => {
  const server = await serving('npx', ['longhaul'], true);
  process.kill(-(server.child.pid ?? 0), 'SIGINT');
  await leavesNothing(server);
});

/** Under an older Node the command is a child of the launcher: a flag keeps this Node from replacing itself. */
const launcher = ['--import', 'data:text/javascript,delete process.execve', program];

it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'a launcher that receives %s passes it on, and ends as the command does',
  async (signal) => {
    const server = await serving(process.execPath, launcher);
    expect(listProcessesIn(server.dir).length).toBe(2);
    server.child.kill(signal);
    expect(await server.ended).toEqual([0, null]);
    await leavesNothing(server);
  },
);

it('a launcher that is killed takes the command with it', async () => {
  const server = await serving(process.execPath, launcher);
  server.child.kill('SIGKILL');
  await leavesNothing(server);
});

/** As `npm run quickstart`: npm, its shell, a launcher that waits, and the command. */
it.each(['SIGTERM', 'SIGHUP', 'SIGKILL'] as const)(
  'npm with a launcher that receives %s leaves nothing',
  async (signal) => {
    const dir = mkdtempSync(join(tmpdir(), 'longhaul-launcher-'));
    dirs.push(dir);
    const watch = JSON.stringify(join(root, 'scripts/setup/launcher-watch.mjs'));
    writeFileSync(
      join(dir, 'launcher.mjs'),
      `import { spawn } from 'node:child_process'; import { endWith, launchedEnv } from ${watch};
    endWith(spawn(process.execPath, [${JSON.stringify(join(dir, 'command.mjs'))}], { stdio: 'inherit', env: launchedEnv() }));`,
    );
    writeFileSync(
      join(dir, 'command.mjs'),
      `import { whenLauncherEnds } from ${watch};
    whenLauncherEnds(() => process.exit(0)); setInterval(() => undefined, 60_000); console.log('runs');`,
    );
    const child = spawn('npm', ['exec', '--offline', '--call', `${process.execPath} ${join(dir, 'launcher.mjs')}`], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    await once(child.stdout, 'data');
    expect(listProcessesIn(join(dir, 'command.mjs')).length).toBe(1);
    child.kill(signal);
    await vi.waitFor(() => expect(listProcessesIn(dir)).toEqual([]), soon);
  },
);
