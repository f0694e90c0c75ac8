/**
 * Detects a `DOCKER_HOST` or Docker context of another machine. Its daemon cannot be used: the supervisor's program is
 * a file of this machine, which the daemon mounts into the container.
 */

import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';

import { type DockerAddress, dockerAddress, hostOf, socketOf, urlOf } from './address.ts';

/** Why it cannot be used, and what to do instead. */
export const IS_REMOTE =
  'it is another machine, whose daemon cannot see the files of this one; ' +
  'use the daemon of this machine (unix:///var/run/docker.sock, or localhost), run the workers on the other ' +
  'machine, or set LONGHAUL_SANDBOX=bubblewrap';

function isHere(host: string): boolean {
  if (host === '' || host === 'localhost' || host.endsWith('.localhost') || host === hostname().toLowerCase())
    return true;
  if (isIP(host) === 0) return false;
  if (host.startsWith('127.') || host === '0.0.0.0' || host === '::1' || host === '::') return true;
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host));
}

/**
 * Docker's address if it is on another machine, else `undefined`. The local end of a tunnel counts as this machine.
 * Errors: those of `dockerAddress`, and `SandboxImpossible` for an invalid address.
 */
export function remoteDockerHost(env: NodeJS.ProcessEnv): DockerAddress | undefined {
  const address = dockerAddress(env);
  if (socketOf(address) !== undefined) return undefined;
  return isHere(hostOf(urlOf(address)).toLowerCase()) ? undefined : address;
}
