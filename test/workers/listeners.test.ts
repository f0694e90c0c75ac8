/**
 * Hunts open sockets: all our sockets are bound to loopback, and the supervisor's is a file that other users cannot
 * open. No setting binds elsewhere: for that, users configure their own cluster.
 */

import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { folderOf } from '../../sandboxes/supervised/state.ts';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { choosePort } from '../../stack/temporal-server/free-port.ts';
import { serverArguments } from '../../stack/temporal-server/server-arguments.ts';
import { type Bench, openBubblewrapBench, openDockerBench, specOf } from '../sandboxes/harness.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-listeners-'));
const LISTEN = '0A';

/** Local addresses of a process's listening sockets, as the kernel prints them. */
function listensOn(pid: number): string[] {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/u.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    }),
  );
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .flatMap((line) => {
        const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/u);
        return state === LISTEN && inodes.has(inode) ? [local] : [];
      }),
  );
}

/** 127.0.0.0/8, ::1, and 127.0.0.0/8 mapped to IPv6; words are in the machine's byte order. */
const isLoopback = (local: string): boolean =>
  /^([0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000[0-9A-F]{6}7F):/u.test(local);

describe('the Temporal server and its UI', () => {
  let server: PrivateServer;
  beforeAll(async () => {
    server = await startPrivateServer(dir);
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it('listen on loopback alone, with every port of theirs', () => {
    const all = listensOn(server.pid);
    expect(all.length).toBeGreaterThanOrEqual(2);
    expect(all.filter((local) => !isLoopback(local))).toEqual([]);
  });

  it('are told so, whatever the environment says', () => {
    const args = serverArguments({ port: 1, ui: { host: '127.9.8.7', port: 2 }, database: '/d', namespace: 'n' });
    expect(args).toContain('--ip=127.0.0.1');
    expect(args).toContain('--ui-ip=127.9.8.7');
    expect(serverArguments({ port: 1, database: '/d', namespace: 'n' })).toContain('--headless');
  });
});

it('this process listens nowhere after it has looked for ports', async () => {
  await choosePort([]);
  expect(listensOn(process.pid).filter((local) => !isLoopback(local))).toEqual([]);
});

it('no other source of ours listens but the door of the UI and `serve`, which asks for a key elsewhere than on loopback (its own tests)', () => {
  const root = join(import.meta.dirname, '../..');
  const folders = [
    'activities',
    'agents',
    'benchmarks',
    'bin',
    'chaos',
    'cli',
    'client',
    'config',
    'connection',
    'endpoints',
    'modules',
    'protocol',
    'recipes',
    'reports',
    'sandboxes',
    'scripts',
    'servers',
    'stack',
    'store',
    'tasks',
    'trainer',
    'workers',
    'workflows',
  ];
  const sources = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  );
  const listening = sources.filter(
    (name) =>
      /\.(ts|mts|mjs)$/u.test(name) && /\bcreateServer\b|\.listen\(/u.test(readFileSync(join(root, name), 'utf8')),
  );
  expect(listening).toEqual(['servers/http/http-server.ts', 'stack/ui-proxy.ts', 'stack/temporal-server/free-port.ts']);
  expect(readFileSync(join(root, 'stack/temporal-server/free-port.ts'), 'utf8')).toContain(
    "const LOOPBACK = '127.0.0.1'",
  );
  expect(readFileSync(join(root, 'stack/ui-proxy.ts'), 'utf8')).toContain("host: '127.0.0.1', exclusive: true");
});

describe('the socket of a sandbox', () => {
  const open: ReadonlyArray<readonly [string, () => Promise<Bench>]> = [
    ['bubblewrap', openBubblewrapBench],
    ['docker', () => openDockerBench({ transport: 'socket' })],
  ];
  it.each(open)('of %s is in folders that are closed to others, and is no network socket', async (_, opened) => {
    const bench = await opened();
    await bench.provider.create(specOf('door'));
    const folder = folderOf(bench.stateDir, 'door');
    expect(statSync(join(folder, bench.socket)).isSocket()).toBe(true);
    for (const path of [bench.stateDir, folder]) expect(statSync(path).mode & 0o077).toBe(0);
    await bench.provider.destroy('door');
  });
});
