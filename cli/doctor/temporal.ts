/** Checks Temporal: a cluster that is named must answer; if none is named, the server's program must exist. */

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

/** The first server version whose matcher uses priority keys by default. */
const LOOKS_FROM = [1, 31] as const;

/** A note on a server that may ignore priority keys; empty for later servers, and if the version is unreadable. */
export function noteOnPriorities(version: string): string[] {
  const [, major = '', minor = ''] = /^v?(\d+)\.(\d+)/u.exec(version) ?? [];
  if (major === '') return [];
  const late = Number(major) > LOOKS_FROM[0] || (Number(major) === LOOKS_FROM[0] && Number(minor) >= LOOKS_FROM[1]);
  return late
    ? []
    : [
        `server ${version}: set matching.useNewMatcher: true, or its queues do not put training's work before ` +
          'that of evals',
      ];
}
