/**
 * Life of a sandbox: it is made once for any number of requests, leaves nothing after its end, and is never forgotten.
 */

import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createBubblewrapProvider } from '../../sandboxes/bubblewrap/provider.ts';
import { identify } from '../../sandboxes/supervised/process-identity.ts';
import { claimFolder, folderOf, readIdentity, readState } from '../../sandboxes/supervised/state.ts';
import { SandboxImpossible, SandboxLost, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import { eventually, makeAndKill, openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
const { provider, stateDir, supervisorPath } = bench;

describe('create', () => {
  it('brings files, modes and variables, and runs the set-up in the workspace', async () => {
    const files = [
      { path: 'pkg/a.py', content: 'print("a")\n' },
      { path: '/tmp/tool', content: new TextEncoder().encode('#!/bin/sh\necho tool $COLOR\n'), mode: 0o755 },
    ];
    const setup =
      'git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm start && echo $COLOR > made';
    const sandbox = await provider.create(specOf('create', { files, env: { COLOR: 'red' }, setup }));
    expect((await sh(sandbox, 'python3 pkg/a.py; /tmp/tool; cat made; git log --format=%s')).output).toBe(
      'a\ntool red\nred\nstart\n',
    );
    await provider.destroy('create');
  });

  it('adopts a live sandbox of the same id, from this process or another, and runs its set-up once', async () => {
    const spec = specOf('run/step-1/task/0 with a long name/'.repeat(8), { setup: 'echo x >> setups' });
    const elsewhere = createBubblewrapProvider({ stateDir, supervisorPath });
    const made = await Promise.all([
      provider.create(spec),
      provider.create(spec),
      elsewhere.create(spec),
      elsewhere.create(spec),
    ]);
    await sh(made[0], 'echo mine > file');
    expect((await sh(await elsewhere.create(spec), 'cat setups file')).output).toBe('x\nmine\n');
    expect(await provider.list()).toEqual([spec.id]);
    await elsewhere.destroy(spec.id);
    expect(await provider.list()).toEqual([]);
  });

  it('takes a half-made one of a dead maker for nothing', async () => {
    const folder = claimFolder(stateDir, 'half') ?? '';
    writeFileSync(join(folder, 'maker'), '999999 1\n');
    const sandbox = await provider.create(specOf('half'));
    expect((await sh(sandbox, 'echo made')).output).toBe('made\n');
    await provider.destroy('half');
  });

  it('takes over from a maker that is killed at any moment, and the set-up still runs once', async () => {
    for (const delay of [0, 5, 10, 20, 40, 80]) {
      const spec = specOf(`killed/${delay}`, { setup: 'echo x >> setups; sleep 0.05' });
      // On a fast machine it has finished before it is killed.
      await makeAndKill(bench, spec, delay);
      expect((await sh(await provider.create(spec), 'cat setups')).output).toBe('x\n');
      await provider.destroy(spec.id);
    }
    expect(readdirSync(stateDir).filter((name) => /^[0-9a-f]{24}$/u.test(name))).toEqual([]);
  });

  it.each([
    ['its set-up fails', { setup: 'echo broken; exit 3' }, 'its set-up failed with 3: broken'],
    ['its files do not fit', { files: [{ path: 'big', content: new Uint8Array(80 << 20) }] }, 'at most 67108848 fit'],
    ['its disk is too small', { files: [{ path: 'big', content: new Uint8Array(60 << 20) }] }, 'big: no space left'],
  ])('leaves nothing when %s', async (_, changes, message) => {
    const failed = provider.create(specOf('fails', changes));
    await expect(failed).rejects.toThrow(SandboxUnavailable);
    await expect(failed).rejects.toThrow(message);
    expect(await provider.list()).toEqual([]);
  });

  it('rejects an invalid spec for good, with the field, its value and what is allowed', async () => {
    await expect(provider.create(specOf('bad', { image: 'any/image:1' }))).rejects.toThrow(
      new SandboxImpossible('image any/image:1: not supported by bubblewrap; remove it, or use the docker provider'),
    );
    await expect(provider.create(specOf('bad', { workdir: 'x' }))).rejects.toThrow(SandboxImpossible);
    await expect(provider.create(specOf('bad', { workdir: '/usr/x' }))).rejects.toThrow('workdir /usr/x: must be');
    await expect(provider.create(specOf('bad', { workdir: 'x' }))).rejects.toThrow('workdir x: must be');
    await expect(provider.create(specOf('bad', { ttlSeconds: 0 }))).rejects.toThrow('ttlSeconds 0');
    await expect(
      provider.create(specOf('bad', { limits: { memoryMiB: 0, processes: 1, diskMiB: 1 } })),
    ).rejects.toThrow('limits.memoryMiB 0');
  });

  it('makes the workspace where the spec wants it', async () => {
    const sandbox = await provider.create(
      specOf('elsewhere', { workdir: '/home/agent/repo', files: [{ path: 'a', content: 'x' }] }),
    );
    expect((await sh(sandbox, 'pwd; cat a')).output).toBe('/home/agent/repo\nx');
    await provider.destroy('elsewhere');
  });
});

describe('destroy', () => {
  it('leaves no process, no folder and no control group, and may be repeated', async () => {
    const sandbox = await provider.create(specOf('gone'));
    await sh(sandbox, 'trap "" TERM; (setsid sleep 1000 &) ; sleep 1000 & disown');
    const folder = folderOf(stateDir, 'gone');
    const groups = (readState(folder, 'cgroups') ?? '').split('\n').filter(Boolean);
    const owner = readIdentity(folder, 'owner');
    const inner = readIdentity(folder, 'inner');
    expect([owner, inner].every((each) => each !== undefined && identify(each.pid) !== undefined)).toBe(true);
    await Promise.all([provider.destroy('gone'), provider.destroy('gone')]);
    await provider.destroy('gone');
    expect([owner, inner].some((each) => each !== undefined && identify(each.pid)?.start === each.start)).toBe(false);
    expect(groups.some((group) => existsSync(group))).toBe(false);
    expect(readdirSync(stateDir)).not.toContain(folder.split('/').at(-1));
    await expect(sandbox.exec({ callId: 'late', command: 'true', timeoutMs: 1000, outputLimit: 10 })).rejects.toThrow(
      SandboxLost,
    );
    await expect(provider.connect('gone')).rejects.toThrow(SandboxLost);
  });

  it('ends a sandbox that another process made and that is busy', async () => {
    const sandbox = await provider.create(specOf('busy'));
    const busy = sh(sandbox, 'yes > /dev/null');
    const lost = expect(busy).rejects.toThrow(SandboxLost);
    await createBubblewrapProvider({ stateDir, supervisorPath }).destroy('busy');
    await lost;
  });
});

describe('the time to live', () => {
  it('ends an abandoned sandbox, is extended by `renew`, and the remains are listed as ended', async () => {
    const kept = await provider.create(specOf('kept', { ttlSeconds: 1 }));
    await kept.renew(60);
    await provider.create(specOf('abandoned', { ttlSeconds: 0.3 }));
    const owner = readIdentity(folderOf(stateDir, 'abandoned'), 'owner');
    await eventually('the sandbox ends', () =>
      owner !== undefined && identify(owner.pid) === undefined ? true : undefined,
    );
    expect(await provider.ended()).toEqual(['abandoned']);
    await expect(provider.connect('abandoned')).rejects.toThrow(SandboxLost);
    await new Promise((resolve) => setTimeout(resolve, 900));
    expect((await sh(kept, 'echo alive')).output).toBe('alive\n');
    expect(await provider.sweep((id) => id === 'kept')).toEqual(['abandoned']);
    expect(await provider.list()).toEqual(['kept']);
    await provider.destroy('kept');
  });
});
