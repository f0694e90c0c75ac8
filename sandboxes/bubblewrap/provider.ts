/** The bubblewrap provider: makes sandboxes from Linux namespaces, without a daemon. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { SandboxImpossible, type SandboxSpec } from '../sandbox.ts';
import type { ToolsGuard } from '../tools-folder.ts';
import type { Launcher } from '../supervised/launcher.ts';
import { type HostProvider, SupervisedProvider } from '../supervised/provider.ts';
import { prepareRuntime } from '../supervised/runtime.ts';
import { refuseUnlessDefault } from '../supervised/spec.ts';
import { hasEnded, stateFile, writeIdentity } from '../supervised/state.ts';
import { dialSocket } from '../supervisor/connection.ts';
import { seesUsrLocal } from './arguments.ts';
import { findCgroupHost } from './cgroup.ts';
import { endSandbox, finishEndings, innerProcess } from './end.ts';
import { findBubblewrap } from './find-bubblewrap.ts';
import { type LaunchHost, launch } from './launch.ts';

const FIRST_UID = 100_000;
const UID_COUNT = 30_000;

export interface BubblewrapOptions {
  /** Folder of the sandboxes' records. All processes that use the same sandboxes share it. */
  readonly stateDir: string;
  /** The program that `buildSupervisor` made. */
  readonly supervisorPath: string;
  /** Default: `bwrap` on PATH. */
  readonly bubblewrap?: string;
  /**
   * Folder for the files of Longhaul that sandboxes see. Any user must be able to enter it. Default: /var/lib/longhaul
   * for root, else `stateDir`.
   */
  readonly runtimeDir?: string;
  /** Absent: sandboxes see no `toolsFolder`. */
  readonly guardTools?: ToolsGuard;
}

/** How the limits of a spec are enforced on this machine. */
export interface EnforcedLimits {
  /** `rlimit`: memory is limited per process, and out-of-memory kills are not detected. */
  readonly memory: 'cgroup-v1' | 'cgroup-v2' | 'rlimit';
  readonly processes: 'cgroup-v1' | 'cgroup-v2' | 'rlimit';
  /** `none`: this machine delegates no such control group; a spec with `cpus` is then an error. */
  readonly cpus: 'cgroup-v1' | 'cgroup-v2' | 'none';
  readonly disk: 'tmpfs';
  /** `pool`: each sandbox has its own uid. `caller`: it has the caller's uid, in its own user namespace. */
  readonly user: 'pool' | 'caller';
}

function hostOf(options: BubblewrapOptions): LaunchHost {
  const isRoot = process.getuid?.() === 0;
  const base = options.runtimeDir ?? (isRoot ? '/var/lib/longhaul' : options.stateDir);
  mkdirSync(options.stateDir, { recursive: true, mode: 0o700 });
  return {
    bubblewrap: findBubblewrap(options.bubblewrap),
    runtime: prepareRuntime(base, options.supervisorPath),
    cgroups: findCgroupHost(),
    uids: isRoot ? { first: FIRST_UID, count: UID_COUNT, dir: join(base, 'uids') } : undefined,
  };
}

function launcherOf(stateDir: string, host: LaunchHost): Launcher {
  return {
    name: 'bubblewrap',
    asOther: host.uids !== undefined,
    whole: {
      memory: host.cgroups !== undefined,
      processes: false,
      path: seesUsrLocal() ? '/usr/local/bin:/usr/bin:/bin' : '/usr/bin:/bin',
    },
    check(spec: SandboxSpec) {
      refuseUnlessDefault(
        spec,
        'bubblewrap',
        host.cgroups?.cpu === undefined ? ['image', 'build', 'profile', 'cpus'] : ['image', 'build', 'profile'],
      );
      if (spec.network !== undefined && host.uids === undefined)
        throw new SandboxImpossible(
          `network of ${spec.network.names.join(', ')}: bubblewrap joins sandboxes for root only; ` +
            'run the workers as root, or use the docker provider',
        );
    },
    launch: (folder, spec) => launch(host, folder, spec),
    dial: (folder) => dialSocket(join(folder, stateFile.socket)),
    started(folder) {
      const inner = innerProcess(folder);
      if (inner !== undefined) writeIdentity(folder, 'inner', inner);
    },
    end: endSandbox,
    finishEndings: () => finishEndings(stateDir),
    ended: async (folders) => await Promise.resolve(folders.filter(hasEnded)),
  };
}

function cpusBy({ cgroups }: LaunchHost): EnforcedLimits['cpus'] {
  return cgroups?.cpu === undefined ? 'none' : `cgroup-v${cgroups.version}`;
}

export interface BubblewrapProvider extends HostProvider {
  readonly limits: EnforcedLimits;
}

/** Errors: `SandboxUnavailable` if this machine has no bubblewrap. */
export function createBubblewrapProvider(options: BubblewrapOptions): BubblewrapProvider {
  const host = hostOf(options);
  const by = host.cgroups === undefined ? 'rlimit' : (`cgroup-v${host.cgroups.version}` as const);
  const limits: EnforcedLimits = {
    memory: by,
    processes: by,
    cpus: cpusBy(host),
    disk: 'tmpfs',
    user: host.uids === undefined ? 'caller' : 'pool',
  };
  return Object.assign(
    new SupervisedProvider(options.stateDir, launcherOf(options.stateDir, host), options.guardTools),
    { limits },
  );
}
