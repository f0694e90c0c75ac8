/**
 * Builds of the workflow code as Temporal's worker deployment: a build finishes the work that it started, and new work
 * goes to the current build. The name of a build is the hash of its workflow code.
 */

import type { NativeConnection, WorkerDeploymentOptions } from '@temporalio/worker';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserInputError } from '../../protocol/user-input-error.ts';

export const DEPLOYMENT = 'longhaul';

/** True if `$LONGHAUL_VERSIONING` is `1`. Errors: `UserInputError` for any other value than `0`. */
export function isVersioned(env: NodeJS.ProcessEnv = process.env): boolean {
  const text = env['LONGHAUL_VERSIONING'] ?? '';
  if (text === '' || text === '0') return false;
  if (text === '1') return true;
  throw new UserInputError('LONGHAUL_VERSIONING', text, 'give 1 to run builds side by side, or 0, or unset it');
}

/** The options of a worker of this build. Workflows that do not use `AUTO_UPGRADE` set their behavior themselves. */
export function deploymentOptions(buildId: string): WorkerDeploymentOptions {
  return {
    version: { deploymentName: DEPLOYMENT, buildId },
    useWorkerVersioning: true,
    defaultVersioningBehavior: 'AUTO_UPGRADE',
  };
}

/** The server knows a build after its first poll. In milliseconds. */
const KNOWN_WITHIN = 60_000;

/** Makes the build current: from now on, new work starts on it. Errors: the server's, after a minute. */
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

/** Temporal's `VersionDrainageStatus`: a workflow that is pinned to the version is open. */
const DRAINING = 1;

/** Earlier builds that still have open rollouts, as the server reports them. */
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
