/** Hunts a client that uses another daemon than the one that a variable, Docker's context or the default selects. */

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { dockerAddress } from '../../../sandboxes/docker/address.ts';
import { dockerClient } from '../../../sandboxes/docker/client.ts';
import { chooseTransport } from '../../../sandboxes/docker/provider.ts';
import type { Engine } from '../../../sandboxes/docker/engine.ts';
import { remoteDockerHost } from '../../../sandboxes/docker/remote-host.ts';
import { SandboxImpossible } from '../../../sandboxes/sandbox.ts';

let HOME = '';
beforeEach(() => {
  HOME = mkdtempSync(join(tmpdir(), 'longhaul-docker-home-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(HOME, { recursive: true, force: true });
});

function write(path: string, content: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(content));
}

function writeContext(name: string, Host: string): string {
  const id = createHash('sha256').update(name).digest('hex');
  write(join(HOME, '.docker', 'contexts', 'meta', id, 'meta.json'), {
    Name: name,
    Endpoints: { docker: { Host, SkipTLSVerify: false } },
  });
  return id;
}

const choose = (currentContext: string) => write(join(HOME, '.docker', 'config.json'), { auths: {}, currentContext });

it('the default is the socket that exists, else that of the system', () => {
  const XDG_RUNTIME_DIR = join(HOME, 'run');
  const [desktop, own] = [join(HOME, '.docker', 'run', 'docker.sock'), join(XDG_RUNTIME_DIR, 'docker.sock')];
  expect(dockerAddress({ HOME })).toEqual({ host: 'unix:///var/run/docker.sock' });
  expect(dockerAddress({ HOME, XDG_RUNTIME_DIR, DOCKER_HOST: '' })).toEqual({ host: 'unix:///var/run/docker.sock' });
  write(own, '');
  expect([`unix://${own}`, 'unix:///var/run/docker.sock']).toContain(dockerAddress({ HOME, XDG_RUNTIME_DIR }).host);
  write(desktop, '');
  expect(dockerAddress({ HOME, XDG_RUNTIME_DIR })).toEqual({ host: `unix://${desktop}` });
  expect(dockerAddress({ HOME, DOCKER_HOST: 'unix://' })).toEqual({ host: `unix://${desktop}`, by: 'DOCKER_HOST' });
});

it('the selected context decides; a variable precedes the file, and DOCKER_HOST precedes both', () => {
  writeContext('rootless', 'unix:///run/user/7/docker.sock');
  writeContext('far', 'tcp://192.0.2.7:2376');
  choose('rootless');
  const file = join(HOME, '.docker', 'config.json');
  expect(dockerAddress({ HOME })).toEqual({ host: 'unix:///run/user/7/docker.sock', by: `${file}, context rootless` });
  const far = { host: 'tcp://192.0.2.7:2376', by: 'DOCKER_CONTEXT, context far' };
  expect(dockerAddress({ HOME, DOCKER_CONTEXT: 'far' })).toEqual(far);
  expect([remoteDockerHost({ HOME }), remoteDockerHost({ HOME, DOCKER_CONTEXT: 'far' })]).toEqual([undefined, far]);
  expect(dockerAddress({ HOME, DOCKER_CONTEXT: 'far', DOCKER_HOST: 'unix:///run/x.sock' })).toEqual({
    host: 'unix:///run/x.sock',
    by: 'DOCKER_HOST',
  });
  expect(dockerAddress({ HOME, DOCKER_CONTEXT: 'default' })).toEqual({ host: 'unix:///var/run/docker.sock' });
  const engine = { rootless: false, remapsUsers: false } as Engine;
  expect([{ HOME }, { HOME, DOCKER_CONTEXT: 'far' }].map((env) => chooseTransport(engine, undefined, env, 0))).toEqual([
    'socket',
    'exec',
  ]);
});

it('a missing context and an invalid address are errors that name them', () => {
  choose('gone');
  expect(() => dockerAddress({ HOME })).toThrow(
    /config\.json: there is no Docker context "gone" in .*contexts; choose one with docker context use, or set DOCKER_HOST$/u,
  );
  expect(() => remoteDockerHost({ HOME, DOCKER_CONTEXT: 'lost' })).toThrow(
    /^DOCKER_CONTEXT: there is no Docker context "lost"/u,
  );
  for (const DOCKER_HOST of ['/var/run/docker.sock', 'fd://', 'tcp://', 'tcp://a b'])
    for (const asked of [dockerClient, remoteDockerHost])
      expect(() => asked({ HOME, DOCKER_HOST })).toThrow(SandboxImpossible);
  expect(() => dockerClient({ HOME, DOCKER_HOST: 'tcp://localhost:2376', DOCKER_CERT_PATH: join(HOME, 'no') })).toThrow(
    /certificates cannot be read: .*ca\.pem/u,
  );
});

it('ports and protocols are those of Docker itself', () => {
  const id = writeContext('secure', 'tcp://localhost');
  const tls = join(HOME, '.docker', 'contexts', 'tls', id, 'docker');
  mkdirSync(tls, { recursive: true });
  for (const name of ['ca', 'cert', 'key']) writeFileSync(join(tls, `${name}.pem`), name);
  const modem = (env: NodeJS.ProcessEnv) => dockerClient({ HOME, ...env }).modem as unknown as Record<string, unknown>;
  expect(modem({ DOCKER_HOST: 'localhost' })).toMatchObject({ host: 'localhost', port: 2375, protocol: 'http' });
  expect(modem({ DOCKER_HOST: 'tcp://127.0.0.1:99' })).toMatchObject({
    host: '127.0.0.1',
    port: '99',
    protocol: 'http',
  });
  expect(modem({ DOCKER_HOST: 'tcp://[::1]:99' })).toMatchObject({ host: '::1', port: '99', protocol: 'http' });
  expect(modem({ DOCKER_HOST: 'ssh://me@localhost', SSH_AUTH_SOCK: '/agent' })).toMatchObject({
    host: 'localhost',
    port: 22,
    protocol: 'ssh',
    username: 'me',
    sshOptions: { agent: '/agent' },
  });
  expect(modem({ DOCKER_CONTEXT: 'secure' })).toMatchObject({
    host: 'localhost',
    port: 2376,
    protocol: 'https',
    ca: Buffer.from('ca'),
    cert: Buffer.from('cert'),
    key: Buffer.from('key'),
  });
});

it('a client uses the daemon of the given environment, not that of this process', async () => {
  const path = join(HOME, 'docker.sock');
  const server = createServer((_, response) => response.end('OK')).listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  try {
    for (const elsewhere of ['', 'unix:///nonexistent/docker.sock', 'tcp://127.0.0.1:1', 'ssh://me@localhost']) {
      vi.stubEnv('DOCKER_HOST', elsewhere);
      expect(String(await dockerClient({ DOCKER_HOST: `unix://${path}` }).ping())).toBe('OK');
    }
  } finally {
    server.close();
  }
});
