/**
 * Hunts a doctor that finds nothing missing although no sandbox can be made: a requested kind must exist, a daemon
 * without an image makes none, and a forbidden socket is not a stopped daemon. Daemon and registry are real.
 */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { which } from '../../../scripts/setup/command.mjs';
import { examineSandboxes } from '../../../cli/doctor/sandboxes.ts';
import { openEngine } from '../../../sandboxes/docker/engine.ts';
import { imageOutlook } from '../../../sandboxes/docker/images/outlook.ts';
import { followReports } from '../../../sandboxes/docker/images/progress.ts';
import { dockerForTests } from '../../support/containers/docker-daemon.ts';
import { type Registry, startRegistry } from '../../support/containers/registry.ts';

const { docker, host: DAEMON } = await dockerForTests();
let folder = '';
let registry: Registry;
beforeAll(async () => {
  registry = await startRegistry();
});
afterAll(() => registry.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-doctor-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A PATH with these programs of this machine and no others. */
function pathWith(...programs: string[]): string {
  const bin = mkdtempSync(join(folder, 'bin-'));
  for (const name of programs) symlinkSync(which(name, process.env) ?? '', join(bin, name));
  return bin;
}

async function examined(env: NodeJS.ProcessEnv) {
  const findings = await examineSandboxes({ LONGHAUL_CACHE: join(folder, 'cache'), DOCKER_CONFIG: folder, ...env });
  const lacking = findings.filter(({ required, state }) => required && state === 'missing');
  return {
    findings,
    lacking: lacking.map(({ name }) => name),
    remedy: (name: string) => findings.find((one) => one.name === name)?.remedy,
  };
}

const nowhere = () => `unix://${join(folder, 'no.sock')}`;
const bubblewrap = () => pathWith('bwrap');

it('with bubblewrap nothing of Docker is required, unless it is requested', async () => {
  expect((await examined({ PATH: bubblewrap(), DOCKER_HOST: nowhere() })).lacking).toEqual([]);
  for (const asked of [
    { LONGHAUL_SANDBOX: 'docker' },
    { LONGHAUL_DOCKER_RUNTIME: 'runsc' },
    { LONGHAUL_DOCKER_IMAGE: 'any/image:1' },
  ]) {
    const { lacking, remedy } = await examined({ PATH: bubblewrap(), DOCKER_HOST: nowhere(), ...asked });
    expect(lacking).toEqual(['Docker daemon']);
    expect(remedy('Docker daemon')).toBe(`start the daemon at ${nowhere()}, or unset DOCKER_HOST`);
  }
});

it('without any isolation both kinds are named; requested bubblewrap is required whatever Docker has', async () => {
  expect((await examined({ PATH: pathWith(), DOCKER_HOST: nowhere() })).lacking).toEqual(['bubblewrap']);
  expect((await examined({ PATH: pathWith(), DOCKER_HOST: DAEMON, LONGHAUL_SANDBOX: 'bubblewrap' })).lacking).toEqual([
    'bubblewrap',
  ]);
});

it('a daemon that lacks the runtime, or that has and gets no image, does not make sandboxes', async () => {
  const missing = `${registry.address}/no/such:image`;
  const { lacking, remedy } = await examined({
    PATH: bubblewrap(),
    DOCKER_HOST: DAEMON,
    LONGHAUL_DOCKER_RUNTIME: 'no-such-runtime',
    LONGHAUL_DOCKER_IMAGE: missing,
  });
  expect(lacking).toEqual(['Docker daemon', 'Docker base image']);
  expect(remedy('Docker daemon')).toMatch(
    /^add the runtime no-such-runtime to the daemon \(it has .*runc.*\), or unset LONGHAUL_DOCKER_RUNTIME$/u,
  );
  expect(remedy('Docker base image')).toMatch(
    new RegExp(`^image ${missing} cannot be pulled: .*; name an available image .* in LONGHAUL_DOCKER_IMAGE$`, 'u'),
  );
});

it('an impossible setting is reported with the allowed values', async () => {
  const { lacking, remedy } = await examined({
    PATH: bubblewrap(),
    DOCKER_HOST: nowhere(),
    LONGHAUL_SANDBOX: 'podman',
  });
  expect(lacking).toEqual(['LONGHAUL_SANDBOX']);
  expect(remedy('LONGHAUL_SANDBOX')).toContain('give one of auto, bubblewrap, docker');
});

it('a socket that this user may not use does not make doctor suggest to start a daemon', async () => {
  const socket = join(folder, 'docker.sock');
  const server = createServer().listen(socket);
  await new Promise((resolve) => server.once('listening', resolve));
  chmodSync(socket, 0o600);
  chmodSync(folder, 0o755);
  const path = bubblewrap();
  const asRoot = process.getuid?.() === 0;
  try {
    if (asRoot) process.seteuid?.(65534);
    else chmodSync(socket, 0);
    const { remedy } = await examined({ PATH: path, DOCKER_HOST: `unix://${socket}` });
    expect(remedy('Docker daemon')).toContain('sudo usermod -aG docker');
  } finally {
    if (asRoot) process.seteuid?.(0);
    server.close();
  }
});

it('an image is reported with the source that sandboxes would get it from', async () => {
  const engine = await openEngine(docker);
  mkdirSync(join(folder, 'etc'));
  const asked = { cache: join(folder, 'cache'), etc: join(folder, 'etc'), env: { DOCKER_CONFIG: folder } };
  const missing = `${registry.address}/no/such:image`;
  const lacks = {
    lacks: expect.stringMatching(
      new RegExp(`^image ${missing} cannot be pulled: .*, and this machine has no apt to build one from$`, 'u'),
    ) as string,
  };
  expect(await imageOutlook(engine, { ...asked, published: missing })).toEqual(lacks);
  const image = `${registry.address}/longhaul/empty:1`;
  const imported = (await docker.importImage(Readable.from([Buffer.alloc(1024)]), {
    fromSrc: '-',
    repo: image,
  })) as Readable;
  await followReports(imported, () => undefined);
  expect(await imageOutlook(engine, { ...asked, base: image })).toEqual({ found: `${image}, on this host` });
  await followReports(
    (await docker.getImage(image).push({ authconfig: { username: '', password: '' } })) as Readable,
    () => undefined,
  );
  await docker.getImage(image).remove({ force: true });
  expect(await imageOutlook(engine, { ...asked, base: image })).toEqual({ found: `${image}, at its registry` });
  expect(await imageOutlook(engine, { ...asked, published: null })).toEqual({
    lacks: 'no published image is set, and this machine has no apt to build one from',
  });
});
