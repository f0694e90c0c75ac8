/**
 * What Podman must be told about the number of a user's processes. As root it asks for 1,048,576 where nobody says
 * otherwise, which whoever may not raise a limit (no CAP_SYS_RESOURCE) does not get: no container would start.
 */

import { readFileSync } from 'node:fs';

import type { Engine } from './engine.ts';

/** Of all containers' processes of one user; `undefined`: nothing need be said. */
export function userProcessLimit(
  { podman, rootless }: Engine,
  limits = '/proc/self/limits',
  pidMax = '/proc/sys/kernel/pid_max',
): number | undefined {
  if (!podman || rootless) return undefined;
  const own = /^Max processes\s+\S+\s+(\d+)/mu.exec(readFileSync(limits, 'utf8'))?.[1];
  // Podman's service holds itself to as many processes as the machine can number.
  return own === undefined ? undefined : Math.min(Number(own), Number(readFileSync(pidMax, 'utf8')));
}
