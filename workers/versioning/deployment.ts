/**
 * Builds of the workflow code as Temporal's worker deployment: what a build began it ends, and new work goes to the one
 * that is current. The name of a build is the hash of its workflow code.
 */

import type { NativeConnection, WorkerDeploymentOptions } from '@temporalio/worker';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserInputError } from '../../protocol/user-input-error.ts';

export const DEPLOYMENT = 'longhaul';

/** Whether orchestrators take part: `$LONGHAUL_VERSIONING` is `1`. Errors: `UserInputError` for anything else but `0`. */
export function isVersioned(env: NodeJS.ProcessEnv = process.env): boolean {
  const text = env['LONGHAUL_VERSIONING'] ?? '';
  if (text === '' || text === '0') return false;
  if (text === '1') return true;
  throw new UserInputError('LONGHAUL_VERSIONING', text, 'give 1 to run builds side by side, 0 or nothing not to');
}

/** What a worker of the build is made with. Workflows say themselves where they differ from `AUTO_UPGRADE`. */
export function deploymentOptions(buildId: string): WorkerDeploymentOptions {
  return {
    version: { deploymentName: DEPLOYMENT, buildId },
    useWorkerVersioning: true,
    defaultVersioningBehavior: 'AUTO_UPGRADE',
  };
}

/** A build becomes known with its first poll; milliseconds. */
const KNOWN_WITHIN = 60_000;

/** Makes the build current: what begins from now on begins on it. Errors: the server's, after a minute. */
export async function promote(
  { workflowService }: NativeConnection,
  namespace: string,
  buildId: string,
): Promise<void> {
  for (const deadline = Date.now() + KNOWN_WITHIN; ; await sleep(500)) {
    try {
      await workflowService.setWorkerDeploymentCurrentVersion({
        namespace,
        deploymentName: DEPLOYMENT,
        buildId,
        version: `${DEPLOYMENT}.${buildId}`,
        ignoreMissingTaskQueues: true,
        identity: `orchestrator ${process.pid}`,
      });
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

/** Temporal's `VersionDrainageStatus`: something that is pinned to the version is open. */
const DRAINING = 1;

/** Builds that were current before, and have rollouts to end, by what the server knows. */
export async function unfinishedBuilds({ workflowService }: NativeConnection, namespace: string): Promise<string[]> {
  const { workerDeploymentInfo: info } = await workflowService.describeWorkerDeployment({
    namespace,
    deploymentName: DEPLOYMENT,
  });
  return (info?.versionSummaries ?? []).flatMap(({ deploymentVersion, drainageInfo, drainageStatus }) => {
    const build = deploymentVersion?.buildId ?? '';
    return build !== '' && (drainageInfo?.status ?? drainageStatus) === DRAINING ? [build] : [];
  });
}
