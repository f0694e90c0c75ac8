/**
 * The Docker provider: makes sandboxes as containers, with the daemon of this host or Podman's service behind the same
 * API. Settings that the daemon does not support are rejected before anything is made.
 */

import { mkdirSync } from 'node:fs';

import type Docker from 'dockerode';

import { SandboxImpossible } from '../sandbox.ts';
import { type HostProvider, SupervisedProvider } from '../supervised/provider.ts';
import { prepareRuntime } from '../supervised/runtime.ts';
import { dockerAddress, socketOf } from './address.ts';
import { dockerClient } from './client.ts';
import type { ToolsGuard } from '../tools-folder.ts';
import type { Transport } from './container.ts';
import { cannotLimit, type Engine, openEngine } from './engine.ts';
import { type Images, openImages } from './images/images.ts';
import { DockerLauncher } from './launcher.ts';
import { IS_REMOTE, remoteDockerHost } from './remote-host.ts';

export interface DockerOptions {
  /** Folder of the sandboxes' records. All processes that use the same sandboxes share it. */
  readonly stateDir: string;
  /** The program that `buildSupervisor` made. It must be linked statically. */
  readonly supervisorPath: string;
  /** `$LONGHAUL_CACHE`. */
  readonly cache: string;
  /** The base image's reference. Default: the published one, or one that is built on this machine. */
  readonly image?: string;
  /** Replaces the published base image; `null`: one is built on this machine. */
  readonly published?: string | null;
  /** The OCI runtime, by the daemon's name for it (`runsc`). Default: the daemon's own. */
  readonly runtime?: string;
  /** Default: `socket` if the host can see a container's sockets, else `exec`. */
  readonly transport?: Transport;
  readonly docker?: Docker;
  readonly onProgress?: (line: string) => void;
  /** Absent: sandboxes see no `toolsFolder`. */
  readonly guardTools?: ToolsGuard;
}

export interface DockerProvider extends HostProvider {
  readonly engine: Engine;
  readonly images: Images;
  readonly transport: Transport;
}

/** Runtimes whose containers share the host's kernel, and therefore its sockets. */
const SHARES_KERNEL = new Set(['runc', 'crun', 'youki', 'io.containerd.runc.v2']);

const sharesKernel = (runtime: string | undefined): boolean => runtime === undefined || SHARES_KERNEL.has(runtime);

/**
 * Host and container can both use a socket in a folder of the host if root is the same user on both sides: as root
 * without user remapping, or as the user of a rootless daemon. Sockets of other kernels (gVisor) are not visible to the
 * host.
 */
export function chooseTransport(
  engine: Engine,
  runtime: string | undefined,
  env: NodeJS.ProcessEnv,
  uid: number,
): Transport {
  const local = socketOf(dockerAddress(env)) !== undefined;
  const sameRoot = uid === 0 ? !engine.rootless && !engine.remapsUsers : engine.rootless;
  return local && sameRoot && sharesKernel(runtime ?? engine.defaultRuntime) ? 'socket' : 'exec';
}

const runtimeRemedy = ({ podman, runtimes }: Engine): string =>
  podman
    ? `Podman's service starts every container with its own runtime (${runtimes.join(', ')}); ` +
      'set another in its containers.conf ([engine] runtime)'
    : `the Docker daemon has only ${runtimes.join(', ')}; add it to the daemon's runtimes, or choose one of these`;

function ownDocker(env: NodeJS.ProcessEnv): Docker {
  const remote = remoteDockerHost(env);
  if (remote !== undefined)
    throw new SandboxImpossible(`${remote.by}: ${JSON.stringify(remote.host)} cannot be used; ${IS_REMOTE}`);
  return dockerClient(env);
}

/**
 * Errors: `SandboxUnavailable` if no daemon answers; `SandboxImpossible` if it lacks the runtime, runs on another
 * machine, or does not enforce limits.
 */
export async function createDockerProvider(options: DockerOptions): Promise<DockerProvider> {
  const engine = await openEngine(options.docker ?? ownDocker(process.env));
  const { runtime, stateDir } = options;
  if (runtime !== undefined && !engine.runtimes.includes(runtime))
    throw new SandboxImpossible(`runtime ${runtime}: ${runtimeRemedy(engine)}`);
  const unlimited = cannotLimit(engine);
  if (unlimited !== undefined)
    throw new SandboxImpossible(`the Docker daemon ${engine.version} cannot be used: ${unlimited}`);
  // Podman's service writes a mount as one line, in which these characters have a meaning.
  if (engine.podman && /[,"\n]/u.test(stateDir))
    throw new SandboxImpossible(
      `Podman cannot mount folders below ${JSON.stringify(stateDir)}: choose a home folder whose path has no ` +
        'commas, quotes or line ends',
    );
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const { onProgress, image, cache, published } = options;
  const images = openImages(engine, {
    cache,
    ...(image === undefined ? {} : { base: image }),
    ...(published === undefined ? {} : { published }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  const transport = options.transport ?? chooseTransport(engine, runtime, process.env, process.getuid?.() ?? 0);
  const supervisorPath = prepareRuntime(stateDir, options.supervisorPath).supervisor;
  const launcher = new DockerLauncher({
    engine,
    images,
    stateDir,
    supervisorPath,
    runtime,
    transport,
    ownKernel: !sharesKernel(runtime ?? engine.defaultRuntime),
  });
  return Object.assign(new SupervisedProvider(stateDir, launcher, options.guardTools), { engine, images, transport });
}
