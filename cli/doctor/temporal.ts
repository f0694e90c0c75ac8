/** Temporal: the cluster that is named must answer; where none is named, the server's program must be there. */

import { ask } from '#setup/command.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import { findTemporal } from '#setup/temporal.mjs';
import { chooseCluster } from '../../stack/choose-cluster.ts';
import { checkCluster } from '../../stack/temporal-server/cluster-health.ts';
import { noteOnPriorities } from '../../stack/temporal-server/priorities.ts';
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
