/** Hunts misread daemons: their own information decides how a sandbox is reached and whether its limits hold. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type Docker from 'dockerode';
import { describe, expect, it, onTestFinished } from 'vitest';

import { openEngine, userProcessLimit } from '../../../sandboxes/docker/engine.ts';
import { chooseTransport, createDockerProvider } from '../../../sandboxes/docker/provider.ts';
import { SandboxImpossible } from '../../../sandboxes/sandbox.ts';

/** The information of Podman 4.3.1 without root and with cgroup version 1, where it ignores every limit. */
const PODMAN_ROOTLESS = {
  ServerVersion: '4.3.1',
  Runtimes: {
    crun: { path: '/usr/bin/crun' },
    kata: { path: '/usr/bin/kata-runtime' },
    runc: { path: '/usr/bin/runc' },
    runsc: { path: '/usr/bin/runsc' },
  },
  DefaultRuntime: 'runc',
  SecurityOptions: ['name=seccomp,profile=default'],
  CgroupVersion: '1',
  MemoryLimit: true,
  PidsLimit: true,
  CpuCfsQuota: true,
  Rootless: true,
  BuildahVersion: '1.28.2',
};
const { BuildahVersion: _, Rootless: __, ...DOCKER } = PODMAN_ROOTLESS;

const saying = (info: object): Docker => ({ info: async () => info }) as unknown as Docker;

describe("Podman's service", () => {
  it('without root is recognised, and reached with its user’s transport', async () => {
    const engine = await openEngine(saying(PODMAN_ROOTLESS));
    expect(engine).toMatchObject({ podman: true, rootless: true, seccomp: true, runtimes: ['runc'] });
    expect(chooseTransport(engine, undefined, {}, 1000)).toBe('socket');
    expect(chooseTransport(engine, undefined, {}, 0)).toBe('exec');
  });

  it('that ignores limits makes no sandboxes; with cgroup version 2 it does', async () => {
    const at = { stateDir: '/nowhere', supervisorPath: '/nowhere', cache: '/nowhere' };
    const refused = createDockerProvider({ ...at, docker: saying(PODMAN_ROOTLESS) });
    await expect(refused).rejects.toThrow(SandboxImpossible);
    await expect(refused).rejects.toThrow('does not enforce limits on memory, processes, processors');
    expect((await openEngine(saying({ ...PODMAN_ROOTLESS, CgroupVersion: '2' }))).unheld).toEqual([]);
    expect((await openEngine(saying({ ...PODMAN_ROOTLESS, Rootless: false }))).unheld).toEqual([]);
  });

  it('as root gets the limit on processes per user: that of this process, at most the pids of the machine', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-limits-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const few = file(
      'few',
      'Limit  Soft Limit  Hard Limit  Units\nMax processes             96365                96365                processes\n',
    );
    const any = file('any', 'Max processes             unlimited            unlimited            processes\n');
    const engine = await openEngine(saying({ ...PODMAN_ROOTLESS, Rootless: false }));
    expect(userProcessLimit(engine, few, file('small', '32768\n'))).toBe(32768);
    expect(userProcessLimit(engine, few, file('large', '4194304\n'))).toBe(96365);
    expect(userProcessLimit(engine, any)).toBeUndefined();
    expect(userProcessLimit({ ...engine, rootless: true }, few)).toBeUndefined();
    expect(userProcessLimit({ ...engine, podman: false }, few)).toBeUndefined();
  });
});

describe("Docker's daemon", () => {
  it('has the runtimes that it lists; a default runtime with its own kernel is reached by exec', async () => {
    const engine = await openEngine(saying(DOCKER));
    expect(engine).toMatchObject({
      podman: false,
      rootless: false,
      runtimes: ['crun', 'kata', 'runc', 'runsc'],
      unheld: [],
    });
    expect(chooseTransport(engine, undefined, {}, 0)).toBe('socket');
    expect(chooseTransport({ ...engine, defaultRuntime: 'runsc' }, undefined, {}, 0)).toBe('exec');
  });

  it('that cannot limit memory is rejected, and the error names the limit', async () => {
    expect((await openEngine(saying({ ...DOCKER, MemoryLimit: false }))).unheld).toEqual(['memory']);
  });
});
