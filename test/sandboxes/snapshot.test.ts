/** Snapshots: a restored sandbox has the state of the lost one, and equal states have equal digests. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, it } from 'vitest';

import { SandboxImpossible } from '../../sandboxes/sandbox.ts';
import { restoreSnapshot, takeSnapshot } from '../../sandboxes/snapshot.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { openBench, sh, specOf } from './harness.ts';

const { provider } = await openBench();
const folder = mkdtempSync(join(tmpdir(), 'longhaul-snapshots-'));
const store = openSqliteStore(folder);

afterAll(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const LOOK =
  'cat a.py; stat -c "%a %n" a.py run.sh; readlink link; git status --porcelain; git log --format=%s; sha256sum < bytes; ls -A; stat -c %Y a.py';

it('brings back files, modes, links, times and the repository, the directory and the exports', async () => {
  const spec = specOf('lost', {
    files: [{ path: 'a.py', content: 'print(1)\n' }],
    setup: 'git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm start',
  });
  const lost = await provider.create(spec);
  await sh(
    lost,
    'mkdir -p deep/er; echo "x = 2" > a.py; printf "#!/bin/sh\\n" > run.sh; chmod 711 run.sh; ln -s ../nowhere link; head -c 7000000 /dev/urandom > bytes; touch -d 2001-02-03 a.py',
  );
  await sh(lost, `cd deep/er; export KEPT='a "b" $c'; unkept=1`);
  const before = (await sh(lost, LOOK, { fresh: true })).output;
  const snapshot = await takeSnapshot(lost, store, 'snapshot/1');
  expect(snapshot.bytes).toBeGreaterThan(7_000_000);
  lost.close();
  await provider.destroy('lost');

  const made = await restoreSnapshot(provider, store, specOf('found'), snapshot);
  // Before anything reads the repository: git records that in its index.
  expect((await takeSnapshot(made, store, 'snapshot/1')).digest).toBe(snapshot.digest);
  expect((await sh(made, LOOK, { fresh: true })).output).toBe(before);
  expect((await sh(made, 'pwd; echo "$KEPT [$unkept]"; ls -A /tmp | grep -c tgz')).output).toBe(
    '/workspace/deep/er\na "b" $c []\n0\n',
  );
});

it('restores once for repeated calls, and another state has another digest', async () => {
  const first = await provider.create(specOf('one', { files: [{ path: 'a', content: 'a' }] }));
  await sh(first, 'true');
  const snapshot = await takeSnapshot(first, store, 's');
  expect((await takeSnapshot(first, store, 't')).digest).toBe(snapshot.digest);
  const made = await restoreSnapshot(provider, store, specOf('again'), snapshot);
  await sh(made, 'echo more > more');
  expect((await sh(await restoreSnapshot(provider, store, specOf('again'), snapshot), 'cat more')).output).toBe(
    'more\n',
  );
  expect((await takeSnapshot(made, store, 'u')).digest).not.toBe(snapshot.digest);
  await sh(first, 'cd /tmp');
  expect((await takeSnapshot(first, store, 'v')).digest).not.toBe(snapshot.digest);
});

it('of a workspace that cannot be read completely is an error, never an incomplete snapshot', async () => {
  const sealed = await provider.create(specOf('sealed', { files: [{ path: 'a', content: 'a' }] }));
  await sh(sealed, 'mkdir shut && echo b > shut/b && chmod 000 shut');
  await expect(takeSnapshot(sealed, store, 's')).rejects.toThrow(/not all of the workspace could be read/);
  await sh(sealed, 'chmod 700 shut');
  expect((await takeSnapshot(sealed, store, 't')).bytes).toBeGreaterThan(0);
});

it('that does not fit is an error, and leaves no sandbox', async () => {
  const large = await provider.create(specOf('large', { limits: { memoryMiB: 256, processes: 64, diskMiB: 64 } }));
  await sh(large, 'head -c 9000000 /dev/urandom > bytes');
  const snapshot = await takeSnapshot(large, store, 's');
  const small = specOf('small', { limits: { memoryMiB: 256, processes: 64, diskMiB: 16 } });
  await expect(restoreSnapshot(provider, store, small, snapshot)).rejects.toThrow(SandboxImpossible);
  expect(await provider.list()).not.toContain('small');
});

it('does not restart the shell while a call runs', async () => {
  const busy = await provider.create(specOf('busy'));
  const running = sh(busy, 'touch started; until [ -e go ]; do sleep 0.02; done; echo done');
  await expect(busy.resume?.({ directory: '/tmp', exports: '' })).rejects.toThrow('a call runs');
  await busy.write({ callId: 'go', path: 'go', content: new Uint8Array(), note: '' });
  expect((await running).output).toBe('done\n');
});
