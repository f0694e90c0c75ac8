/** Hunts a daemon of another machine that is accepted as this one's, and one of this machine that is rejected. */

import { hostname, networkInterfaces } from 'node:os';
import { expect, it } from 'vitest';
import type { Engine } from '../../../sandboxes/docker/engine.ts';
import { chooseTransport } from '../../../sandboxes/docker/provider.ts';
import { remoteDockerHost } from '../../../sandboxes/docker/remote-host.ts';

const own = Object.values(networkInterfaces()).flatMap((addresses) =>
  (addresses ?? []).filter(({ family }) => family === 'IPv4').map(({ address }) => `tcp://${address}:2375`),
);

it.each([
  'tcp://192.0.2.7:2375',
  '192.0.2.7',
  'docker:2375',
  'tcp://[2001:db8::7]:2375',
  'ssh://me@far',
  'https://far:2376',
])('%s is another machine', (host) => {
  expect(remoteDockerHost({ DOCKER_HOST: host })).toEqual({ host, by: 'DOCKER_HOST' });
});

it.each([
  '',
  'unix:///run/user/1000/docker.sock',
  'tcp://localhost:2375',
  'LOCALHOST:2375',
  'tcp://127.0.0.1:2375',
  '127.0.0.1:2375',
  'tcp://[::1]:2375',
  `tcp://${hostname()}:2375`,
  ...own,
])('%s is this one', (host) => {
  expect(remoteDockerHost({ DOCKER_HOST: host })).toBeUndefined();
  expect(remoteDockerHost({})).toBeUndefined();
});

it('an empty variable counts as not set: the socket is used', () => {
  const engine = { rootless: false, remapsUsers: false } as Engine;
  const of = (env: NodeJS.ProcessEnv) => chooseTransport(engine, undefined, env, 0);
  expect([
    of({}),
    of({ DOCKER_HOST: '' }),
    of({ DOCKER_HOST: 'unix:///run/docker.sock' }),
    of({ DOCKER_HOST: 'tcp://localhost:2375' }),
  ]).toEqual(['socket', 'socket', 'socket', 'exec']);
});
