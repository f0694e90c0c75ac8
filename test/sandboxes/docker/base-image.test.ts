/**
 * The source of the base image: a published one while a registry answers, else one that this machine builds. If neither
 * works, the error has both reasons. The registry and the daemon are real. Not asserted: that Docker Hub has the
 * published image, since no test may depend on it.
 */

import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';

import { baseImageName, ensureBaseImage } from '../../../sandboxes/docker/images/base-image.ts';
import { followReports } from '../../../sandboxes/docker/images/progress.ts';
import { publishedName } from '../../../sandboxes/docker/images/published-base.ts';
import { SandboxImpossible, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import { startRegistry } from '../../support/containers/registry.ts';
import { openDockerBench, sh, specOf } from '../harness.ts';

const bench = await openDockerBench();
const { engine } = bench.provider;
const { docker } = engine;
const registry = await startRegistry();
const name = `${registry.address}/longhaul/base`;
const SUITE = 'longhaul-test';
let folder = '';
let heard: string[] = [];

const forget = async (image: string): Promise<void> => {
  await docker
    .getImage(image)
    .remove({ force: true })
    .catch(() => undefined);
};

/** The base image after `command`; only the registry has it. */
async function push(tag: string, command: string): Promise<void> {
  const container = await docker.createContainer({
    Image: await bench.provider.images.ensure(undefined),
    Cmd: ['/bin/bash', '-c', command],
    HostConfig: { NetworkMode: 'none' },
  });
  await container.start();
  await container.wait();
  await container.commit({ repo: name, tag });
  await container.remove();
  await followReports(
    (await docker.getImage(`${name}:${tag}`).push({ authconfig: { username: '', password: '' } })) as Readable,
    () => undefined,
  );
  await forget(`${name}:${tag}`);
}

beforeAll(async () => {
  await push('whole', "echo 'root:x:0:0::/:/bin/sh' > /etc/passwd; touch /etc/machine-id /etc/shadow");
  await push('without-git', 'rm /usr/bin/git');
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-base-'));
  heard = [];
  registry.reset();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const image of [
    baseImageName(SUITE),
    ...['whole', 'without-git', 'none'].flatMap((tag) => [`${name}:${tag}`, publishedName(`${name}:${tag}`)]),
  ])
    await forget(image);
  rmSync(folder, { recursive: true, force: true });
});
afterAll(() => registry.stop());

/** An /etc of a machine with apt, for the given release, or without apt. */
function machine(hasApt: boolean): string {
  const etc = join(folder, 'etc');
  mkdirSync(join(etc, 'apt', 'sources.list.d'), { recursive: true });
  writeFileSync(join(etc, 'os-release'), `VERSION_CODENAME=${SUITE}\n`);
  if (hasApt) writeFileSync(join(etc, 'apt', 'sources.list'), `deb http://127.0.0.1:1/debian ${SUITE} main\n`);
  return etc;
}

const ensure = (tag: string, hasApt: boolean): Promise<string> =>
  ensureBaseImage(engine, {
    cache: join(folder, 'cache'),
    etc: machine(hasApt),
    published: `${name}:${tag}`,
    onProgress: (line) => heard.push(line),
  });

it('a published one is pulled once for any number of processes, and gets the /etc of every sandbox', async () => {
  const made = await Promise.all([ensure('whole', false), ensure('whole', true), ensure('whole', false)]);
  expect(new Set(made)).toEqual(new Set([publishedName(`${name}:whole`)]));
  expect(registry.manifests()).toBe(1);
  const { Id } = await docker.getImage(made[0] ?? '').inspect();
  const sandbox = await bench.provider.create(specOf('published', { image: Id.replace('sha256:', '') }));
  const { output } = await sh(
    sandbox,
    'whoami; python3 -c "print(1)"; git init -q . && echo git; ps -o comm= -p 1 >/dev/null && echo ps; ls /etc/shadow /etc/machine-id 2>/dev/null',
  );
  expect(output).toBe('agent\n1\ngit\nps\n');
  await bench.provider.destroy('published');
});

it('one that lacks a program is not used, and the error names the program', async () => {
  const refused = ensure('without-git', false);
  await expect(refused).rejects.toThrow(SandboxImpossible);
  await expect(refused).rejects.toThrow(
    `no base image: image ${name}:without-git lacks git, and this machine has no apt to build one from; set LONGHAUL_DOCKER_IMAGE to an image`,
  );
  expect(await docker.listContainers({ all: true, filters: { ancestor: [`${name}:without-git`] } })).toEqual([]);
});

it('an image that its registry lacks is never retried; a registry that does not answer may answer later', async () => {
  await expect(ensure('none', false)).rejects.toThrow(SandboxImpossible);
  registry.reset(1000);
  const away = ensure('whole', false);
  await expect(away).rejects.toThrow(SandboxUnavailable);
  await expect(away).rejects.toThrow(/could not be pulled: .*, and this machine has no apt/u);
  registry.reset();
  expect(await ensure('whole', false)).toBe(publishedName(`${name}:whole`));
});

it('if no registry has one, it is built here, and no registry is queried again', async () => {
  // A fake debootstrap: the real one needs minutes and a mirror. It builds the base image of the other tests.
  writeFileSync(
    join(folder, 'debootstrap'),
    '#!/bin/sh\nfor last; do rootfs=$before; before=$last; done\nmkdir -p "$rootfs/etc"\n',
  );
  chmodSync(join(folder, 'debootstrap'), 0o755);
  vi.stubEnv('PATH', `${folder}:${process.env['PATH'] ?? ''}`);
  expect(await ensure('none', true)).toBe(baseImageName(SUITE));
  expect(heard).toEqual([
    `pulling the base image ${name}:none`,
    expect.stringContaining('cannot be pulled'),
    `building the base image ${baseImageName(SUITE)} with debootstrap`,
  ]);
  await forget(baseImageName(SUITE));
  registry.reset();
  expect(await ensure('whole', true)).toBe(baseImageName(SUITE));
  expect(registry.manifests()).toBe(0);
});

it('if none can be built, the error has both reasons', async () => {
  vi.stubEnv('PATH', '/nonexistent');
  await expect(ensure('none', true)).rejects.toThrow(
    /^no base image: image .*:none cannot be pulled: .*, and there is no debootstrap to build one: apt install debootstrap; set LONGHAUL_DOCKER_IMAGE/u,
  );
  copyFileSync('/bin/true', join(folder, 'debootstrap'));
  vi.stubEnv('PATH', folder);
  vi.spyOn(process, 'getuid').mockReturnValue(1000);
  await expect(ensure('none', true)).rejects.toThrow(/, and only root can build one/u);
  vi.restoreAllMocks();
});
