/**
 * Snapshots: a restored sandbox has the state of the lost one, and a sandbox that holds more than a snapshot can has
 * none.
 */

import { describe, expect, it } from 'vitest';

import { type Sandbox, SandboxImpossible, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import { restoreSnapshot } from '../../sandboxes/snapshot.ts';
import { openBench, sh, specOf } from './harness.ts';
import { type HeldSnapshot, snapshotOf } from './held-snapshot.ts';

const { provider } = await openBench();
const WORKDIR = { workdir: '/workspace' };

async function taken(sandbox: Sandbox, callId = 'snapshot/1'): Promise<HeldSnapshot> {
  const snapshot = await snapshotOf(sandbox, WORKDIR, callId);
  if (typeof snapshot === 'string') throw new Error(snapshot);
  return snapshot;
}

const LOOK =
  'cat a.py; stat -c "%a %n" a.py run.sh; readlink link; git status --porcelain; git log --format=%s; sha256sum < bytes; ls -A; stat -c %Y a.py; ls -A /tmp /dev/shm; cat /tmp/notes/one /dev/shm/two';

/** Also names, modes and times of folders. Sandboxes may have users of their own. */
const ALL = 'tar --sort=name --owner=0 --group=0 --numeric-owner -cf - . | sha256sum';

it('brings back files, modes, links, times and the repository, /tmp and /dev/shm, the directory and the exports', async () => {
  const spec = specOf('lost', {
    files: [{ path: 'a.py', content: 'print(1)\n' }],
    setup: 'git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm start',
  });
  const lost = await provider.create(spec);
  await sh(
    lost,
    'mkdir -p deep/er; echo "x = 2" > a.py; printf "#!/bin/sh\\n" > run.sh; chmod 711 run.sh; ln -s ../nowhere link; head -c 7000000 /dev/urandom > bytes; touch -d 2001-02-03 a.py; mkdir -m 700 /tmp/notes; echo 1 > /tmp/notes/one; echo 2 > /dev/shm/two',
  );
  await sh(lost, `cd deep/er; export KEPT='a "b" $c'`);
  const before = (await sh(lost, LOOK, { fresh: true })).output;
  const all = (await sh(lost, ALL, { fresh: true })).output;
  const snapshot = await taken(lost);
  expect(snapshot.bytes).toBeGreaterThan(7_000_000);
  lost.close();
  await provider.destroy('lost');

  const made = await restoreSnapshot(provider, specOf('found'), snapshot);
  // Before anything reads the repository: git records that in its index.
  expect((await sh(made, ALL, { fresh: true })).output).toBe(all);
  expect((await sh(made, LOOK, { fresh: true })).output).toBe(before);
  expect((await sh(made, 'pwd; echo "$KEPT"')).output).toBe('/workspace/deep/er\na "b" $c\n');
});

/** Random, so that its archive is as large. */
const fill = (path: string, bytes: number): string => `head -c ${bytes} /dev/urandom > ${path}`;

it('is carried in pieces, and those are small where a sandbox is nearly full', async () => {
  const limits = { memoryMiB: 256, processes: 64, diskMiB: 64 };
  const lost = await provider.create(specOf('full', { limits }));
  // /tmp has 12 MiB.
  await sh(lost, `${fill('bytes', 20_000_000)}; ${fill('/tmp/bytes', 11_500_000)}`);
  const snapshot = await taken(lost);
  expect(snapshot.pieces.length).toBeGreaterThan(30);
  const look = 'cat /workspace/bytes /tmp/bytes | sha256sum; ls -A /workspace /tmp';
  const before = (await sh(lost, look, { fresh: true })).output;
  const made = await restoreSnapshot(provider, specOf('full-again', { limits }), snapshot);
  expect((await sh(made, look, { fresh: true })).output).toBe(before);
});

it('has the same pieces each time, and nothing stays behind, also of a try that died', async () => {
  const same = await provider.create(specOf('same'));
  await sh(same, fill('bytes', 18_000_000));
  const first = await taken(same, 'first');
  const left = '/tmp/.longhaul-snapshot/dead';
  await sh(same, `mkdir -p ${left}; ${fill(`${left}/piece.00`, 1000)}`, { fresh: true });
  const second = await taken(same, 'second');
  expect(first.pieces.length).toBe(3);
  expect(second).toEqual(first);
  expect((await sh(same, 'ls -A /tmp', { fresh: true })).output).not.toContain('longhaul');
});

it('of more than its bound is an error', async () => {
  const large = await provider.create(specOf('bound'));
  await sh(large, fill('bytes', 9_000_000));
  await expect(snapshotOf(large, WORKDIR, 's', 8_500_000)).rejects.toThrow(/it has more than 8500000 bytes/);
  expect((await sh(large, 'ls -A /tmp', { fresh: true })).output).not.toContain('longhaul');
});

it('restores once for repeated calls', async () => {
  const first = await provider.create(specOf('one', { files: [{ path: 'a', content: 'a' }] }));
  await sh(first, 'true');
  const snapshot = await taken(first);
  const made = await restoreSnapshot(provider, specOf('again'), snapshot);
  await sh(made, 'echo more > more; cd /tmp');
  const again = await restoreSnapshot(provider, specOf('again'), snapshot);
  expect((await sh(again, 'pwd; cat /workspace/more')).output).toBe('/tmp\nmore\n');
});

it('is also that of a sandbox whose shell has run nothing', async () => {
  const quiet = await provider.create(specOf('quiet', { files: [{ path: 'a', content: 'a' }] }));
  const snapshot = await taken(quiet);
  expect((await sh(await restoreSnapshot(provider, specOf('loud'), snapshot), 'pwd; ls')).output).toBe(
    '/workspace\na\n',
  );
});

describe('a sandbox that holds more than a snapshot can has none', () => {
  it.each([
    ['a process', 'sleep 1000 & disown', /processes run in it/],
    ['a process whose parent has ended', '(sleep 1000 &)', /processes run in it/],
    ['a function', 'f() { echo 1; }', /declare -f f/],
    ['an exported function', 'tar() { echo hijacked; }; export -f tar', /tar/],
    ['a variable', 'unkept=1', /unkept/],
    ['an alias', 'alias l=ls', /alias l=/],
    ['a trap', "trap 'echo bye' EXIT", /trap/],
    ['another mode for new files', 'umask 077', /0077/],
  ])('%s', async (_what, command, reason) => {
    const sandbox = await provider.create(specOf('holder'));
    await sh(sandbox, command);
    expect(await snapshotOf(sandbox, WORKDIR, 's')).toMatch(reason);
    sandbox.close();
    await provider.destroy('holder');
  });

  it('a process that has ended is none', async () => {
    const sandbox = await provider.create(specOf('ended'));
    await sh(sandbox, 'sleep 0 & wait; true | cat');
    expect(await snapshotOf(sandbox, WORKDIR, 's')).not.toBeTypeOf('string');
  });
});

it('of a workspace that cannot be read completely is an error, never an incomplete snapshot', async () => {
  const sealed = await provider.create(specOf('sealed', { files: [{ path: 'a', content: 'a' }] }));
  await sh(sealed, 'mkdir shut && echo b > shut/b && chmod 000 shut');
  await expect(snapshotOf(sealed, WORKDIR, 's')).rejects.toThrow(SandboxUnavailable);
  await sh(sealed, 'chmod 700 shut');
  expect((await taken(sealed, 't')).bytes).toBeGreaterThan(0);
});

it('that does not fit is an error, and leaves no sandbox', async () => {
  const large = await provider.create(specOf('large', { limits: { memoryMiB: 256, processes: 64, diskMiB: 64 } }));
  await sh(large, 'head -c 9000000 /dev/urandom > bytes');
  const snapshot = await taken(large);
  const small = specOf('small', { limits: { memoryMiB: 256, processes: 64, diskMiB: 16 } });
  await expect(restoreSnapshot(provider, small, snapshot)).rejects.toThrow(SandboxImpossible);
  expect(await provider.list()).not.toContain('small');
});

it('does not restart the shell while a call runs', async () => {
  const busy = await provider.create(specOf('busy'));
  const running = sh(busy, 'touch started; until [ -e go ]; do sleep 0.02; done; echo done');
  await expect(busy.resume?.({ directory: '/tmp', exports: '' })).rejects.toThrow('a call runs');
  await busy.write({ callId: 'go', path: 'go', content: new Uint8Array(), note: '' });
  expect((await running).output).toBe('done\n');
});
