/**
 * Images of tasks from a real registry: they are pulled once, retried if that may help, and fail at once if it cannot.
 */

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { openImages } from '../../../sandboxes/docker/images/images.ts';
import { pullImage } from '../../../sandboxes/docker/images/pull.ts';
import { followReports } from '../../../sandboxes/docker/images/progress.ts';
import { SandboxImpossible, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { startRegistry } from '../../support/containers/registry.ts';
import { openDockerBench, sh, specOf } from '../harness.ts';

const bench = await openDockerBench();
const { engine } = bench.provider;
const { docker } = engine;
const registry = await startRegistry();
const locks = { cache: join(bench.stateDir, 'cache') };
const name = `${registry.address}/longhaul/task`;
let digest = '';

const forget = async (image: string): Promise<void> => {
  await docker
    .getImage(image)
    .remove({ force: true })
    .catch(() => undefined);
};

/** The base image with a repository that belongs to root, as in SWE images. */
async function pushTask(): Promise<void> {
  const container = await docker.createContainer({
    Image: await bench.provider.images.ensure(undefined),
    Cmd: [
      '/bin/bash',
      '-c',
      'mkdir -p /testbed/src /opt/tool && echo old > /testbed/src/a.py && echo tool > /opt/tool/x && chmod 777 /opt/tool; echo postgres:x:70:71::/var/lib/postgresql:/bin/sh >> /etc/passwd; printf postgres:x:71: >> /etc/group',
    ],
    HostConfig: { NetworkMode: 'none' },
  });
  await container.start();
  await container.wait();
  await container.commit({ repo: name, tag: '1', changes: 'ENTRYPOINT ["/bin/false"]' });
  await container.remove();
  const pushed = (await docker.getImage(`${name}:1`).push({ authconfig: { username: '', password: '' } })) as Readable;
  await followReports(pushed, () => undefined);
  const accept = 'application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json';
  const told = await fetch(`http://${registry.address}/v2/longhaul/task/manifests/1`, { headers: { accept } });
  digest = told.headers.get('docker-content-digest') ?? '';
  await forget(`${name}:1`);
}

beforeAll(pushTask);
beforeEach(async () => {
  await forget(`${name}:1`);
  await forget(`${name}@${digest}`);
  registry.reset();
});
afterAll(async () => {
  await forget(`${name}:1`);
  await forget(`${name}@${digest}`);
  await registry.stop();
  rmSync(locks.cache, { recursive: true, force: true });
});

describe('an image', () => {
  it('is pulled once for any number of sandboxes and processes, by its digest or a tag, with progress', async () => {
    const heard: string[] = [];
    const hosts = [1, 2].map(() => openImages(engine, { ...locks, onProgress: (line) => heard.push(line) }));
    const asked = Array.from({ length: 8 }, (_, n) => hosts[n % 2]!.ensure(`${name}@${digest}`));
    expect(new Set(await Promise.all(asked)).size).toBe(1);
    expect(registry.manifests()).toBe(1);
    expect(heard.some((line) => /: \d+ of \d+ layers$/u.test(line))).toBe(true);
    expect(await openImages(engine, locks).ensure(`${name}@${digest}`)).toBe(await asked[0]);
    expect(registry.manifests()).toBe(1);
  });

  it('reports only its own progress while others are pulled', async () => {
    const [all, one, another]: [string[], string[], string[]] = [[], [], []];
    const images = openImages(engine, { ...locks, pauseMs: 1, onProgress: (line) => all.push(line) });
    registry.reset(1000);
    const asked = [
      images.ensure(`${name}:1`, (line) => one.push(line)),
      images.ensure(`${name}:2`, (line) => another.push(line)),
    ];
    await Promise.allSettled(asked);
    const of = (lines: string[], tag: number) =>
      lines.filter((line) => line.startsWith(`${name}:${tag}: attempt `)).length;
    expect([of(one, 1), of(another, 2)]).toEqual([4, 4]);
    expect([of(one, 2), of(another, 1)]).toEqual([0, 0]);
    expect([of(all, 1), of(all, 2)]).toEqual([4, 4]);
  });

  it('is retried with growing pauses while the registry is busy', async () => {
    const heard: string[] = [];
    registry.reset(2);
    await pullImage(engine, `${name}:1`, { pauseMs: 5, onProgress: (line) => heard.push(line) });
    const pauses = heard.flatMap((line) => /next attempt in ([\d.]+) s/u.exec(line)?.[1] ?? []);
    expect(pauses.length).toBeGreaterThan(0);
    expect(pauses.map(Number)).toEqual(pauses.map((_, n) => 0.005 * 2 ** n));
  });

  it('of a registry that limits requests is waited for beyond the usual attempts, up to a limit', async () => {
    const heard: string[] = [];
    registry.reset(16, 429);
    await pullImage(engine, `${name}:1`, { pauseMs: 1, onProgress: (line) => heard.push(line) });
    const pauses = heard
      .flatMap((line) => /the registry limits requests .*; next attempt in ([\d.]+) s/u.exec(line)?.[1] ?? [])
      .map(Number);
    expect(pauses.length).toBeGreaterThan(5);
    expect(Math.max(...pauses)).toBe(0.06);
    await forget(`${name}:1`);
    registry.reset(1_000_000, 429);
    await expect(pullImage(engine, `${name}:1`, { pauseMs: 1 })).rejects.toThrow(/its registry limited requests for/u);
  });

  it('that the registry does not have fails at once', async () => {
    const heard: string[] = [];
    const refused = pullImage(engine, `${name}:none`, { pauseMs: 5, onProgress: (line) => heard.push(line) });
    await expect(refused).rejects.toThrow(SandboxImpossible);
    await expect(refused).rejects.toThrow(`image ${name}:none cannot be pulled`);
    expect(heard).toEqual([]);
  });

  it('of a registry that does not answer fails after some attempts, and may be pulled later', async () => {
    const heard: string[] = [];
    registry.reset(1000);
    const away = pullImage(engine, `${name}:1`, { pauseMs: 1, onProgress: (line) => heard.push(line) });
    await expect(away).rejects.toThrow(SandboxUnavailable);
    expect(heard).toHaveLength(4);
  });

  it('with an invalid name fails the sandbox, and leaves nothing', async () => {
    await expect(bench.provider.create(specOf('impossible', { image: `${name}:none` }))).rejects.toThrow(
      SandboxImpossible,
    );
    await expect(bench.provider.create(specOf('impossible', { image: 'Not A Reference' }))).rejects.toThrow(
      'image Not A Reference: must be an image reference',
    );
    expect(await bench.provider.list()).toEqual([]);
  });
});

describe('a task with an image of its own', () => {
  const task = { image: '', workdir: '/testbed', limits: { memoryMiB: 256, processes: 64, diskMiB: 64 } };

  it('has a writable workspace and image in the profile `swe`, and is otherwise confined like any other', async () => {
    const sandbox = await bench.provider.create(
      specOf('swe', {
        ...task,
        image: `${name}@${digest}`,
        profile: 'swe',
        files: [{ path: 'src/b.py', content: 'b\n' }],
      }),
    );
    const { output } = await sh(
      sandbox,
      'cat src/a.py src/b.py; echo new > src/a.py; echo more > /opt/tool/y; stat -c %U src/a.py; cat src/a.py; touch /usr/x /etc/x 2>&1 | grep -c denied',
    );
    expect(output).toBe('old\nb\nagent\nnew\n2\n');
    const rights =
      'grep -E "^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):" /proc/self/status | cut -f2 | sort -u | tr "\\n" " "';
    expect((await sh(sandbox, rights)).output).toBe('0000000000000000 1 2 ');
    expect((await sh(sandbox, 'chown root src/a.py || cat /proc/net/route | tail -n +2')).output).toContain(
      'not permitted',
    );
    await bench.provider.destroy('swe');
  });

  /** Why: tests and programs of an image use the image's users, such as a database's or a web server's. */
  it.each(['swe', 'strict'] as const)(
    'knows the users that its image knows, and the agent, in the profile `%s`',
    async (profile) => {
      const sandbox = await bench.provider.create(
        specOf(`users ${profile}`, {
          ...task,
          image: `${name}@${digest}`,
          profile,
          workdir: profile === 'swe' ? '/testbed' : '/work',
        }),
      );
      const ask =
        'import pwd,grp; print(pwd.getpwnam("postgres").pw_uid, grp.getgrnam("postgres").gr_gid, pwd.getpwnam("nobody").pw_uid)';
      const { output } = await sh(
        sandbox,
        `python3 -c '${ask}'; whoami; id -gn; echo ~; grep -c ^agent: /etc/passwd /etc/group`,
      );
      expect(output).toBe('70 71 65534\nagent\nagent\n/tmp/home\n/etc/passwd:1\n/etc/group:1\n');
      await bench.provider.destroy(`users ${profile}`);
      const left = await docker.listContainers({ all: true, filters: { label: ['longhaul=accounts'] } });
      expect(left).toEqual([]);
    },
  );

  it('has only a writable workspace in the profile `strict`, also if the image was removed since', async () => {
    const sandbox = await bench.provider.create(
      specOf('strict', { ...task, image: `${name}@${digest}`, workdir: '/work' }),
    );
    const { output } = await sh(sandbox, 'cat /testbed/src/a.py; touch /opt/tool/y 2>&1; echo x > a && cat a');
    expect(output).toBe("old\ntouch: cannot touch '/opt/tool/y': Read-only file system\nx\n");
    await bench.provider.destroy('strict');
  });
});
