/** Hunts a container that may do more than its profile allows: checks the daemon's settings, and the effect inside. */

import type { ContainerCreateOptions } from 'dockerode';
import { expect, it } from 'vitest';

import { containerOptions } from '../../../sandboxes/docker/container.ts';
import type { DockerProvider } from '../../../sandboxes/docker/provider.ts';
import { readRecord } from '../../../sandboxes/docker/record.ts';
import { folderOf } from '../../../sandboxes/supervised/state.ts';
import { SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { openDockerBench, sh, specOf } from '../harness.ts';

const benches = [await openDockerBench({ transport: 'socket' }), await openDockerBench({ transport: 'exec' })];
const MIB = 1 << 20;

/** The capabilities that any process of the container may have: CHOWN, SETGID, SETUID and SETPCAP are 0, 6, 7 and 8. */
async function rightsOf({ engine }: DockerProvider, name: string): Promise<number> {
  const exec = await engine.docker
    .getContainer(name)
    .exec({ Cmd: ['grep', 'CapBnd', '/proc/self/status'], AttachStdout: true, Tty: false });
  let told = '';
  for await (const chunk of await exec.start({ hijack: true, stdin: false })) told += String(chunk);
  return Number.parseInt(/CapBnd:\s*([0-9a-f]+)/u.exec(told)?.[1] ?? '', 16);
}

it.each(benches)(
  'has no network, no right, no host folder but its own, and a limit on everything that can be counted',
  async (bench) => {
    const { provider, stateDir } = bench;
    const { podman } = provider.engine;
    const sandbox = await provider.create(specOf('hard', { cpus: 0.5 }));
    const name = readRecord(folderOf(stateDir, 'hard'))?.name ?? '';
    const { HostConfig, Config, State, Mounts } = await provider.engine.docker.getContainer(name).inspect();
    expect(HostConfig).toMatchObject({
      NetworkMode: 'none',
      // Podman has another name for a private namespace, and returns a list instead of 'ALL'.
      IpcMode: podman ? 'shareable' : 'private',
      Privileged: false,
      ReadonlyRootfs: true,
      CapDrop: podman ? expect.arrayContaining(['DAC_OVERRIDE', 'NET_RAW']) : ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      NanoCpus: 500_000_000,
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
    });
    expect(HostConfig.Memory).toBeGreaterThanOrEqual((256 + 64) * MIB);
    expect(HostConfig.MemorySwap).toBe(HostConfig.Memory);
    expect(HostConfig.PidsLimit).toBeGreaterThanOrEqual(64);
    expect(HostConfig.PidsLimit).toBeLessThan(64 + 32);
    // Read-only: the program and the account files. If the socket is shared: the sandbox's own folder, which is closed
    // to the policy.
    const binds = Mounts.filter(({ Type }) => Type === 'bind').map(
      ({ Destination, RW }) => `${Destination}:${RW ? 'rw' : 'ro'}`,
    );
    expect(binds.toSorted()).toEqual(
      [
        '/etc/group:ro',
        '/etc/passwd:ro',
        ...(provider.transport === 'socket' ? ['/run/longhaul:rw'] : []),
        '/run/longhaul-supervisor:ro',
      ].toSorted(),
    );
    expect(JSON.stringify(HostConfig)).not.toContain('docker.sock');
    expect(await rightsOf(provider, name)).toBe((1 << 0) | (1 << 6) | (1 << 7) | (1 << 8));
    expect(Config.Labels).toMatchObject({ longhaul: 'sandbox', 'longhaul.sandbox': 'hard', 'longhaul.ttl': '1200' });
    expect(State.Running).toBe(true);
    await sandbox.write({ callId: 'big', path: 'big', content: new Uint8Array(1), note: '' });
    const inside = [
      'ls /run/longhaul 2>&1 | grep -c "Permission denied"',
      'cat /proc/1/environ /proc/1/maps 2>&1 | grep -c "Permission denied"',
      'head -c 80000000 /dev/zero > /dev/shm/x 2>/dev/null; stat -c %s /dev/shm/x',
      'ulimit -f; ulimit -c; ulimit -n',
      'cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d" " -f1 /sys/fs/cgroup/cpu.max',
    ];
    expect((await sh(sandbox, inside.join('\n'))).output).toBe(`1\n2\n${4 * MIB}\n65536\n0\n1024\n50000\n`);
    await provider.destroy('hard');
  },
);

it('has the daemon’s filter of system calls and the supervisor’s', async () => {
  const { provider } = benches[0]!;
  expect(provider.engine.seccomp).toBe(true);
  const sandbox = await provider.create(specOf('seccomp'));
  expect(
    (await sh(sandbox, 'grep -E "^Seccomp(_filters)?:" /proc/self/status | cut -f2 | tr "\\n" " "')).output,
  ).toMatch(/^2 ([2-9] )?$/u);
  expect((await sh(sandbox, 'grep "^Seccomp:" /proc/1/status | cut -f2')).output).toBe('2\n');
  await provider.destroy('seccomp');
});

it('requests a quota again after a daemon that gave no answer, or failed for another reason than a missing quota', async () => {
  const { provider } = benches[1]!;
  const { docker } = provider.engine;
  const create = docker.createContainer.bind(docker);
  const asked: unknown[] = [];
  const fails = [
    new SandboxUnavailable('Docker did not answer within 60 s: create'),
    Object.assign(new Error('(HTTP code 500) server error - busy'), { statusCode: 500 }),
  ];
  docker.createContainer = ((options: ContainerCreateOptions) => {
    asked.push(options.HostConfig?.StorageOpt?.['size']);
    const fail = fails.shift();
    return fail ? Promise.reject(fail) : create(options);
  }) as typeof docker.createContainer;
  try {
    await expect(provider.create(specOf('bound', { profile: 'swe' }))).rejects.toThrow('did not answer');
    for (const id of ['bound', 'bound again']) {
      await provider.create(specOf(id, { profile: 'swe' }));
      await provider.destroy(id);
    }
    expect(asked.slice(0, 4)).toEqual(['64M', '64M', undefined, '64M']);
  } finally {
    docker.createContainer = create;
  }
});

it('requests a quota on the whole disk if the image is writable, and works without it if the daemon has none', async () => {
  const { provider, stateDir } = benches[0]!;
  const plan = {
    name: 'n',
    claim: 'c',
    scope: 's',
    image: 'i',
    runtime: undefined,
    transport: 'socket',
    ownKernel: false,
    runFolder: '/r',
    supervisorPath: '/s',
    uid: 20_000,
    files: [],
    podman: false,
    userProcesses: undefined,
  } as const;
  const storage = (profile: 'strict' | 'swe', quota: boolean) =>
    containerOptions(specOf('q', { profile }), { ...plan, quota }).HostConfig?.StorageOpt;
  expect([storage('swe', true), storage('swe', false), storage('strict', true)]).toEqual([
    { size: '64M' },
    undefined,
    undefined,
  ]);
  const sandbox = await provider.create(specOf('quota', { profile: 'swe' }));
  const { HostConfig, Driver } = await provider.engine.docker
    .getContainer(readRecord(folderOf(stateDir, 'quota'))?.name ?? '')
    .inspect();
  expect(Driver).not.toBe('');
  const asked = HostConfig.StorageOpt?.['size'];
  if (asked === undefined) expect((await sh(sandbox, 'echo made')).output).toBe('made\n');
  else
    expect((await sh(sandbox, 'for n in 1 2 3; do head -c 60000000 /dev/zero > f$n; done 2>&1')).output).toMatch(
      /No space left|quota/u,
    );
  await provider.destroy('quota');
});
