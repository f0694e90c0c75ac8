/** Temporal: the cluster that is named must answer; where none is named, the server's program must be there. */

import { ask } from '#setup/command.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import { findTemporal } from '#setup/temporal/temporal.mjs';
import { chooseCluster } from '../../stack/choose-cluster.ts';
import { checkCluster } from '../../stack/temporal-server/cluster-health.ts';
import { type Finding, finding } from './finding.ts';

export async function examineTemporal(env: NodeJS.ProcessEnv): Promise<Finding> {
  const cluster = chooseCluster(env);
  if (cluster.kind === 'embedded') {
    const program = findTemporal(cacheDirectory(env), env);
    const version = program && ask(program.path, ['--version']);
    return finding('Temporal', true, version && `${version}, ${program.path}`, 'npx longhaul setup');
  }
  const version = await checkCluster(cluster.connection, cluster.namespace, 5_000).catch(() => undefined);
  const where = `${cluster.address}, namespace ${cluster.namespace}`;
  const found = version === undefined ? undefined : [where, ...noteOnPriorities(version)].join(', ');
  return finding('Temporal', true, found, `start the cluster at ${where}, or unset TEMPORAL_ADDRESS`);
}

/** The first whose matcher looks at priority keys without being told to. */
const LOOKS_FROM = [1, 31] as const;

/** A word on a server that may not; none where the version says nothing. */
export function noteOnPriorities(version: string): string[] {
  const [, major = '', minor = ''] = /^v?(\d+)\.(\d+)/u.exec(version) ?? [];
  if (major === '') return [];
  const late = Number(major) > LOOKS_FROM[0] || (Number(major) === LOOKS_FROM[0] && Number(minor) >= LOOKS_FROM[1]);
  return late
    ? []
    : [
        `server ${version}: its queues give out training's work before that of sweeps with matching.useNewMatcher: true alone`,
      ];
}
