/**
 * Hunts a container of the profile `swe` that is restored without what its policy made, changed or removed in the
 * image's own files, and a snapshot of one that changed more than a snapshot holds. Daemon and image are real.
 */

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Sandbox, SandboxImpossible, type SandboxSpec } from '../../../sandboxes/sandbox.ts';
import { restoreSnapshot } from '../../../sandboxes/snapshot.ts';
import { workspaceDigest } from '../../../sandboxes/workspace-digest.ts';
import { openDockerBench, sh, specOf } from '../harness.ts';
import { type HeldSnapshot, snapshotOf } from '../held-snapshot.ts';

const { provider } = await openDockerBench();
const { docker } = provider.engine;
const image = `longhaul-test-swe:${randomUUID()}`;

/** The policy may write to /opt/open, which is of the image's own user, and to one file in it. */
const MADE = [
  'mkdir -m 777 /opt/open /opt/open/folder /opt/open/again',
  'for f in old folder/deep again/one kept; do echo $f > /opt/open/$f; done',
  'echo shared > /opt/open/shared; chmod 666 /opt/open/shared',
  'mkdir -p /app/shut; echo app > /app/shut/file; echo gone > /app/gone; chmod 555 /app/shut',
];

beforeAll(async () => {
  const base = await provider.images.ensure(undefined);
  const made = await docker.createContainer({
    Image: base,
    Entrypoint: ['/bin/bash', '-c'],
    Cmd: [MADE.join('\n')],
    HostConfig: { NetworkMode: 'none' },
  });
  await made.start();
  expect(await made.wait()).toMatchObject({ StatusCode: 0 });
  const [repo, tag] = image.split(':');
  await made.commit({ repo, tag });
  await made.remove();
});
afterAll(async () => {
  await provider.sweep(() => false);
  await docker.getImage(image).remove({ force: true });
});

const swe = (id: string, changes: Partial<SandboxSpec> = {}): SandboxSpec =>
  specOf(id, { workdir: '/app', image, profile: 'swe', folders: ['/tests'], ...changes });

async function taken(sandbox: Sandbox, callId = 'snapshot'): Promise<HeldSnapshot> {
  const snapshot = await snapshotOf(sandbox, swe(sandbox.id), callId);
  if (typeof snapshot === 'string') throw new Error(snapshot);
  return snapshot;
}

const LOOK = [
  'cd /opt/open; find . /var/tmp/mine -mindepth 1 -printf "%p %y %m %l\\n" | sort; cat kept new again/two "$(printf "a\\nb")"',
  'cd /app; find . -printf "%p %y %m %u\\n" | sort; cat new shut/file; cat /tests/one /tmp/two /dev/shm/three',
  'stat -c "%U %Y" /opt/open/new /app/new',
].join('\n');

it('brings back what was made, changed and removed, wherever the image could be written', async () => {
  const lost = await provider.create(swe('lost', { files: [{ path: 'given', content: 'given' }] }));
  await sh(
    lost,
    'cd /opt/open; rm old; rm -r folder; rm -r again; mkdir again; echo 2 > again/two; rm kept; echo changed > kept; chmod 600 kept; echo new > new; touch -d 2001-02-03 new; ln -s /nowhere link; echo lines > "$(printf "a\\nb")"; mkdir -p /var/tmp/mine/empty',
  );
  await sh(
    lost,
    'cd /app; rm gone; echo new > new; touch -d 2001-02-03 new; echo 1 > /tests/one; echo 2 > /tmp/two; echo 3 > /dev/shm/three; export KEPT=1',
  );
  const before = (await sh(lost, LOOK, { fresh: true })).output;
  const digest = await workspaceDigest(lost, 'digest');
  const snapshot = await taken(lost);
  // The lists that were needed are not left behind.
  expect((await sh(lost, 'ls -A /tmp', { fresh: true })).output).not.toContain('longhaul');
  lost.close();
  await provider.destroy('lost');

  const made = await restoreSnapshot(provider, swe('found'), snapshot);
  const after = (await sh(made, LOOK, { fresh: true })).output;
  expect(after).toBe(before);
  expect(after).toContain('agent 981158400');
  expect(
    (await sh(made, 'ls /opt/open/old /opt/open/folder /opt/open/again/one /app/gone', { fresh: true })).output,
  ).toMatch(/old.*folder.*one.*gone/su);
  expect(await workspaceDigest(made, 'digest')).toBe(digest);
  expect((await sh(made, 'pwd; echo $KEPT')).output).toBe('/app\n1\n');
});

it.each([
  [
    'into a file of another user',
    'echo more >> /opt/open/shared',
    /wrote into a file of another user, or moved one: \/opt\/open\/shared/,
  ],
  ['by moving a file of another user', 'mv /opt/open/kept /opt/open/moved', /moved one: \/opt\/open\/moved$/],
  ['by moving one over another', 'mv -f /opt/open/old /opt/open/kept', /moved one: \/opt\/open\/kept$/],
  ['by moving one into the workspace', 'mv /opt/open/old /app/moved', /moved one: \/app\/moved$/],
  ['under a name that is no text', "touch $'/opt/open/\\xff'", /names cannot be read/],
  ['while a process runs', 'sleep 1000 & disown', /processes run in it/],
])('there is none of what was done %s', async (_how, command, reason) => {
  const sandbox = await provider.create(swe('holder'));
  await sh(sandbox, command);
  expect(await snapshotOf(sandbox, swe('holder'), 's')).toMatch(reason);
  sandbox.close();
  await provider.destroy('holder');
});

it('one that does not fit is an error, and leaves no sandbox', async () => {
  const { pieces, ...state } = await taken(await provider.create(swe('whole')));
  const torn = { ...state, pieces: pieces.map((piece) => piece.subarray(0, piece.length - 20)) };
  await expect(restoreSnapshot(provider, swe('torn'), torn)).rejects.toThrow(SandboxImpossible);
  expect(await provider.list()).not.toContain('torn');
});
