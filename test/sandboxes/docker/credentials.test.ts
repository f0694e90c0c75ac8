/** Credentials of `docker login`: they are sent to the registry that they are for, and to no other. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { credentialsFor, registryOf } from '../../../sandboxes/docker/images/credentials.ts';
import { followReports } from '../../../sandboxes/docker/images/progress.ts';
import { pullImage } from '../../../sandboxes/docker/images/pull.ts';
import { SandboxImpossible } from '../../../sandboxes/sandbox.ts';
import { REGISTRY_LOGIN, startRegistry } from '../../support/containers/registry.ts';
import { openDockerBench } from '../harness.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-login-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const basic = (username: string, password: string) => Buffer.from(`${username}:${password}`).toString('base64');

function environment(config: unknown): NodeJS.ProcessEnv {
  writeFileSync(join(folder, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config));
  return { DOCKER_CONFIG: folder, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
}

function helper(name: string, script: string): void {
  writeFileSync(join(folder, `docker-credential-${name}`), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, `docker-credential-${name}`), 0o755);
}

describe('credentials', () => {
  it.each([
    ['python:3.12', 'index.docker.io'],
    ['somebody/tool', 'index.docker.io'],
    ['docker.io/library/python@sha256:0', 'index.docker.io'],
    ['localhost/base:1', 'localhost'],
    ['127.0.0.1:5000/a/b:1', '127.0.0.1:5000'],
    ['ghcr.io/a/b', 'ghcr.io'],
  ])('of %s are those for %s', (reference, registry) => expect(registryOf(reference)).toBe(registry));

  it('come from the file, under any of the registry’s names', async () => {
    const env = environment({
      auths: {
        'https://index.docker.io/v1/': { auth: basic('me', 'a:b') },
        'https://ghcr.io': { auth: basic('you', 'c') },
        'quay.io': { identitytoken: 't' },
        'empty.io': {},
      },
    });
    expect(await credentialsFor('python', env)).toEqual({
      serveraddress: 'https://index.docker.io/v1/',
      username: 'me',
      password: 'a:b',
    });
    expect(await credentialsFor('ghcr.io/a', env)).toEqual({
      serveraddress: 'ghcr.io',
      username: 'you',
      password: 'c',
    });
    expect(await credentialsFor('quay.io/a', env)).toEqual({ serveraddress: 'quay.io', identitytoken: 't' });
    for (const image of ['empty.io/a', 'other.io/a', 'ghcr.io:5000/a'])
      expect(await credentialsFor(image, env)).toBeUndefined();
    expect(await credentialsFor('python', { DOCKER_CONFIG: join(folder, 'nowhere') })).toBeUndefined();
    mkdirSync(join(folder, '.docker'));
    writeFileSync(
      join(folder, '.docker', 'config.json'),
      JSON.stringify({ auths: { 'ghcr.io': { auth: basic('home', 'd') } } }),
    );
    expect(await credentialsFor('ghcr.io/a', { HOME: folder })).toMatchObject({ username: 'home' });
  });

  it('come from a helper, first the registry’s, then the general one; else from the file', async () => {
    helper(
      'one',
      'read server; [ "$1 $server" = "get ghcr.io" ] && echo \'{"ServerURL":"ghcr.io","Username":"helped","Secret":"s"}\'',
    );
    helper(
      'all',
      'read server; case $server in quay.io) echo \'{"Username":"<token>","Secret":"t"}\';; bad.io) echo secret, and no JSON;; *) exit 1;; esac',
    );
    const env = environment({
      credsStore: 'all',
      credHelpers: { 'ghcr.io': 'one' },
      auths: { 'other.io': { auth: basic('filed', 'f') } },
    });
    expect(await credentialsFor('ghcr.io/a', env)).toEqual({
      serveraddress: 'ghcr.io',
      username: 'helped',
      password: 's',
    });
    expect(await credentialsFor('quay.io/a', env)).toEqual({ serveraddress: 'quay.io', identitytoken: 't' });
    expect(await credentialsFor('other.io/a', env)).toMatchObject({ username: 'filed' });
    expect(await credentialsFor('bad.io/a', env)).toBeUndefined();
    expect(await credentialsFor('ghcr.io/a', environment({ credsStore: 'not-installed' }))).toBeUndefined();
  });

  it('in a broken file are never part of its error', async () => {
    const error: unknown = await credentialsFor('python', environment('{"auths": {"x": {"auth": "c2VjcmV0" ')).catch(
      (thrown: unknown) => thrown,
    );
    expect(String(error)).toContain(`${folder}/config.json cannot be read`);
    expect(String(error)).not.toContain('c2VjcmV0');
  });
});

describe('a registry that requires a login', async () => {
  const { provider } = await openDockerBench();
  const { docker } = provider.engine;
  const registry = await startRegistry({ asksWho: true });
  const image = `${registry.address}/private/task:1`;
  const forget = () =>
    docker
      .getImage(image)
      .remove({ force: true })
      .catch(() => undefined);
  const pull = (env: NodeJS.ProcessEnv, heard: string[] = []) =>
    pullImage(provider.engine, image, { env, pauseMs: 1, onProgress: (line) => heard.push(line) });

  beforeAll(async () => {
    // An archive without files: the daemon would compress a base image for 15 seconds.
    const made = await docker.importImage(Readable.from([Buffer.alloc(1024)]), {
      repo: `${registry.address}/private/task`,
      tag: '1',
    });
    await followReports(made as Readable, () => undefined);
    await followReports(
      (await docker
        .getImage(image)
        .push({ authconfig: { ...REGISTRY_LOGIN, serveraddress: registry.address } })) as Readable,
      () => undefined,
    );
    await forget();
  });
  afterAll(async () => {
    await forget();
    await registry.stop();
  });

  it('gets the credentials, and returns the image', async () => {
    await pull(
      environment({ auths: { [registry.address]: { auth: basic(REGISTRY_LOGIN.username, REGISTRY_LOGIN.password) } } }),
    );
    await expect(docker.getImage(image).inspect()).resolves.toMatchObject({
      RepoTags: expect.arrayContaining([image]) as string[],
    });
    await forget();
  });

  it.each([
    ['nothing', {}],
    ['a wrong password', { auth: basic(REGISTRY_LOGIN.username, 'not-the-one') }],
  ])('and gets %s fails at once, with a remedy that does not contain the password', async (_, entry) => {
    const refused = pull(environment({ auths: { [registry.address]: entry } }));
    await expect(refused).rejects.toThrow(SandboxImpossible);
    await expect(refused).rejects.toThrow(`docker login ${registry.address}`);
    await expect(refused).rejects.not.toThrow('not-the-one');
  });

  it('is queried without credentials if the file is broken, and that is reported', async () => {
    const heard: string[] = [];
    await expect(pull(environment('no JSON'), heard)).rejects.toThrow(SandboxImpossible);
    expect(heard).toEqual([expect.stringContaining('config.json cannot be read')]);
  });
});
