/** The Docker daemon is looked at through its API, as workers use it: its own command line need not be there. */

import { which } from '#setup/command.mjs';
import { dockerClient, openEngine } from '../../sandboxes/docker/engine.ts';
import { IS_REMOTE, remoteDockerHost } from '../../sandboxes/docker/remote-host.ts';
import { type Finding, finding } from './finding.ts';

const NAME = 'Docker daemon';

/** What answers, Podman's service too, with what matters for sandboxes; never required where bubblewrap works. */
export async function examineDocker(env: NodeJS.ProcessEnv): Promise<Finding> {
  const remote = remoteDockerHost(env);
  if (remote !== undefined) return finding(NAME, false, undefined, `DOCKER_HOST=${remote}: ${IS_REMOTE}`);
  const found = await openEngine(dockerClient(env)).then(
    ({ version, runtimes, cgroupVersion, rootless }) =>
      `${version}, runtimes ${runtimes.filter((name) => !name.startsWith('io.containerd.')).join(', ')}, control groups v${cgroupVersion}${rootless ? ', rootless' : ''}`,
    () => undefined,
  );
  const installed = ['dockerd', 'docker'].some((name) => which(name, env) !== undefined);
  return finding(NAME, false, found, installed ? 'sudo systemctl start docker' : 'sudo apt-get install -y docker.io');
}
