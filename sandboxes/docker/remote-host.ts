/**
 * Whether `DOCKER_HOST` names another machine. A daemon there cannot be used: the supervisor's program comes into a
 * container by a bind of a file of this machine.
 */

import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';

/** Why it cannot be used, and what to do instead. */
export const IS_REMOTE =
  'it is another machine, whose daemon does not see files of this one; name the daemon of this machine (unix:///var/run/docker.sock, or localhost), run the workers on that one, or set LONGHAUL_SANDBOX=bubblewrap';

function isHere(host: string): boolean {
  if (host === '' || host === 'localhost' || host.endsWith('.localhost') || host === hostname().toLowerCase()) return true;
  if (isIP(host) === 0) return false;
  if (host.startsWith('127.') || host === '0.0.0.0' || host === '::1' || host === '::') return true;
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host));
}

/** `DOCKER_HOST`, where it names a machine that is not this one; a tunnel's near end is this one for all that is known. */
export function remoteDockerHost(env: NodeJS.ProcessEnv): string | undefined {
  const given = env['DOCKER_HOST'];
  if (!given || given.startsWith('unix://') || given.startsWith('npipe://')) return undefined;
  // As the client reads it.
  const url = URL.parse(given.includes('//') ? given : `tcp://${given}`);
  // What is no address at all is refused by the client, which says how one looks.
  return url === null || isHere(url.hostname.toLowerCase().replace(/^\[|\]$/gu, '')) ? undefined : given;
}
