/** Checks the Docker daemon through its API, as workers use it. Docker's command line is not required. */

import { which } from '#setup/command.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import { dockerAddress } from '../../sandboxes/docker/address.ts';
import { dockerClient } from '../../sandboxes/docker/client.ts';
import { cannotLimit, type Engine, openEngine } from '../../sandboxes/docker/engine.ts';
import { type ImageOutlook, imageOutlook } from '../../sandboxes/docker/images/outlook.ts';
import { IS_REMOTE, remoteDockerHost } from '../../sandboxes/docker/remote-host.ts';
import { SandboxImpossible } from '../../sandboxes/sandbox.ts';
import type { SandboxSettings } from '../../workers/settings.ts';
import { type Finding, finding } from './finding.ts';

const DAEMON = 'Docker daemon';

export interface DockerFindings {
  readonly daemon: Finding;
  /** Absent if no daemon answers. */
  readonly image?: Finding;
}

const shared = ({ version, cgroupVersion, rootless }: Engine, runtimes: readonly string[]): string =>
  `${version}, runtimes ${runtimes.join(', ')}, control groups v${cgroupVersion}${rootless ? ', rootless' : ''}`;

function daemonRemedy(error: unknown, env: NodeJS.ProcessEnv): string {
  const cause = error instanceof Error ? (error.cause as NodeJS.ErrnoException | undefined) : undefined;
  if (cause?.code === 'EACCES' || cause?.code === 'EPERM')
    return (
      'a daemon is running, but this user may not use its socket: sudo usermod -aG docker "$USER" and log in ' +
      'again, or set DOCKER_HOST to a daemon of your own'
    );
  if (error instanceof SandboxImpossible) return error.message;
  const { host, by } = dockerAddress(env);
  if (by !== undefined)
    return by === 'DOCKER_HOST'
      ? `start the daemon at ${host}, or unset DOCKER_HOST`
      : `start the daemon at ${host} (${by}), or choose another with docker context use`;
  const installed = ['dockerd', 'docker'].some((name) => which(name, env) !== undefined);
  return installed ? 'sudo systemctl start docker' : 'sudo apt-get install -y docker.io';
}

async function examineImage(engine: Engine, { image }: SandboxSettings, env: NodeJS.ProcessEnv): Promise<Finding> {
  const options = { cache: cacheDirectory(env), env, ...(image === undefined ? {} : { base: image }) };
  const outlook = await imageOutlook(engine, options).catch((error: unknown): ImageOutlook => ({
    lacks: error instanceof Error ? error.message : String(error),
  }));
  const [found, lacks] = 'found' in outlook ? [outlook.found, ''] : [undefined, outlook.lacks];
  return finding(
    'Docker base image',
    false,
    found,
    `${lacks}; name an available image with bash, git, python3 and ps in LONGHAUL_DOCKER_IMAGE`,
  );
}

async function openLocal(env: NodeJS.ProcessEnv): Promise<Engine> {
  const remote = remoteDockerHost(env);
  if (remote !== undefined) throw new SandboxImpossible(`${remote.by}=${remote.host}: ${IS_REMOTE}`);
  return await openEngine(dockerClient(env));
}

/** Checks the daemon (Docker's, or Podman's service), its limits and runtimes, and the base image. */
export async function examineDocker(settings: SandboxSettings, env: NodeJS.ProcessEnv): Promise<DockerFindings> {
  const engine = await openLocal(env).catch((error: unknown) => ({ error }));
  if ('error' in engine) return { daemon: finding(DAEMON, false, undefined, daemonRemedy(engine.error, env)) };
  const runtimes = engine.runtimes.filter((name) => !name.startsWith('io.containerd.'));
  const unlimited = cannotLimit(engine);
  if (unlimited !== undefined) return { daemon: finding(DAEMON, false, undefined, unlimited) };
  const { runtime } = settings;
  const lacksRuntime = runtime !== undefined && !engine.runtimes.includes(runtime);
  const remedy =
    `add the runtime ${runtime} to the daemon (it has ${runtimes.join(', ')}), ` + 'or unset LONGHAUL_DOCKER_RUNTIME';
  const daemon = finding(DAEMON, false, lacksRuntime ? undefined : shared(engine, runtimes), remedy);
  return { daemon, image: await examineImage(engine, settings, env) };
}
