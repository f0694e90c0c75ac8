/**
 * Whether `DOCKER_HOST`, or Docker's context, names another machine. A daemon there cannot be used: the supervisor's program comes into a
 * container by a bind of a file of this machine.
 */

import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';

import { type DockerAddress, dockerAddress, hostOf, socketOf, urlOf } from './address.ts';

/** Why it cannot be used, and what to do instead. */
export const IS_REMOTE =
  'it is another machine, whose daemon does not see files of this one; name the daemon of this machine (unix:///var/run/docker.sock, or localhost), run the workers on that one, or set LONGHAUL_SANDBOX=bubblewrap';

function isHere(host: string): boolean {
  if (host === '' || host === 'localhost' || host.endsWith('.localhost') || host === hostname().toLowerCase())
    return true;
  if (isIP(host) === 0) return false;
  if (host.startsWith('127.') || host === '0.0.0.0' || host === '::1' || host === '::') return true;
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host));
}

/**
 * Docker's address, where it names a machine that is not this one; a tunnel's near end is this one for all that is known.
 * Errors: those of `dockerAddress`, and `SandboxImpossible` for what is no address at all.
 */
export function remoteDockerHost(env: NodeJS.ProcessEnv): DockerAddress | undefined {
  const address = dockerAddress(env);
  if (socketOf(address) !== undefined) return undefined;
  return isHere(hostOf(urlOf(address)).toLowerCase()) ? undefined : address;
}
