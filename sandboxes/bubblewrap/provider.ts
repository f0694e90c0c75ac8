/**
 * The bubblewrap provider: sandboxes out of Linux namespaces, without a daemon. A sandbox belongs to nobody but its
 * lease: any process on this host that knows the state directory can find it, use it and end it.
 */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { type Sandbox, SandboxLost, type SandboxProvider, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts';
import { SupervisorClient } from '../supervisor/client.ts';
import { findCgroupHost } from './cgroup.ts';
import { endSandbox, finishEndings, innerProcess } from './end.ts';
import { findBubblewrap } from './find-bubblewrap.ts';
import { BubblewrapSandbox } from './handle.ts';
import { type LaunchHost, launch } from './launch.ts';
import { isAlive } from './process-identity.ts';
import { prepareRuntime } from './runtime.ts';
import { checkSpec, supervisorSpec } from './spec.ts';
import {
  claimFolder,
  folderOf,
  hasEnded,
  listFolders,
  readIdentity,
  readState,
  removeHalfClaimed,
  stateFile,
  writeIdentity,
} from './state.ts';

const SETUP_TIMEOUT_MS = 600_000;
const PROBE_TIMEOUT_MS = 30_000;
const LAUNCHED_WITHIN_MS = 60_000;
const FIRST_UID = 100_000;
const UID_COUNT = 30_000;

export interface BubblewrapOptions {
  /** Folder of the sandboxes' records; shared by all processes that use the same sandboxes. */
  readonly stateDir: string;
  /** The program that `buildSupervisor` made. */
  readonly supervisorPath: string;
  /** Default: `bwrap` on PATH. */
  readonly bubblewrap?: string;
  /** Folder that any user can enter, for what sandboxes see of ours. Default: /var/lib/longhaul for root, else `stateDir`. */
  readonly runtimeDir?: string;
}

/** How the limits of a spec are enforced on this machine. */
export interface EnforcedLimits {
  /** `rlimit`: memory counts per process, and an out-of-memory kill is not seen. */
  readonly memory: 'cgroup-v1' | 'cgroup-v2' | 'rlimit';
  readonly processes: 'cgroup-v1' | 'cgroup-v2' | 'rlimit';
  readonly disk: 'tmpfs';
  /** `pool`: a uid for each sandbox; `caller`: the caller's, in a user namespace of its own. */
  readonly user: 'pool' | 'caller';
}

export interface BubblewrapProvider extends SandboxProvider {
  readonly limits: EnforcedLimits;
  ended(): Promise<string[]>;
  /** Destroys every sandbox that `isLive` does not claim; returns their ids. */
  sweep(isLive: (id: string) => boolean): Promise<string[]>;
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

/** Folders in which this process is launching a sandbox. */
const launching = new Set<string>();

/** True while a sandbox that does not answer yet may still do so. */
function isBeingMade(folder: string): boolean {
  const owner = readIdentity(folder, 'owner');
  if (owner !== undefined) return isAlive(owner);
  const maker = readIdentity(folder, 'maker');
  return maker !== undefined && (maker.pid === process.pid ? launching.has(folder) : isAlive(maker));
}

class Provider implements BubblewrapProvider {
  readonly name = 'bubblewrap';
  readonly limits: EnforcedLimits;
  private readonly stateDir: string;
  private readonly host: LaunchHost;
  private readonly creating = new Map<string, Promise<Sandbox>>();

  constructor(options: BubblewrapOptions) {
    this.stateDir = options.stateDir;
    this.host = hostOf(options);
    const by = this.host.cgroups === undefined ? 'rlimit' : (`cgroup-v${this.host.cgroups.version}` as const);
    this.limits = { memory: by, processes: by, disk: 'tmpfs', user: this.host.uids === undefined ? 'caller' : 'pool' };
  }

  async create(spec: SandboxSpec): Promise<Sandbox> {
    checkSpec(spec);
    const running = this.creating.get(spec.id);
    if (running !== undefined) return await running;
    const made = this.make(spec).finally(() => this.creating.delete(spec.id));
    this.creating.set(spec.id, made);
    return await made;
  }

  async connect(id: string): Promise<Sandbox> {
    const client = this.clientOf(id);
    try {
      if (await client.hello()) return new BubblewrapSandbox(id, client);
    } catch (error) {
      client.close();
      throw error;
    }
    client.close();
    throw new SandboxLost(`sandbox ${id} was never finished`);
  }

  async destroy(id: string): Promise<void> {
    await endSandbox(folderOf(this.stateDir, id));
  }

  async list(): Promise<string[]> {
    return await Promise.resolve(listFolders(this.stateDir).map(({ id }) => id));
  }

  async ended(): Promise<string[]> {
    removeHalfClaimed(this.stateDir);
    await finishEndings(this.stateDir);
    const all = listFolders(this.stateDir).filter(({ id, folder }) => !this.creating.has(id) && hasEnded(folder));
    return await Promise.resolve(all.map(({ id }) => id));
  }

  async sweep(isLive: (id: string) => boolean): Promise<string[]> {
    const left = listFolders(this.stateDir).filter(({ id }) => !isLive(id) && !this.creating.has(id));
    for (const { folder } of left) await endSandbox(folder);
    return left.map(({ id }) => id);
  }

  private clientOf(id: string): SupervisorClient {
    return new SupervisorClient(id, join(folderOf(this.stateDir, id), stateFile.socket));
  }

  private async make(spec: SandboxSpec): Promise<Sandbox> {
    await this.launchOnce(spec);
    const client = this.clientOf(spec.id);
    try {
      await this.start(client, spec);
      return new BubblewrapSandbox(spec.id, client);
    } catch (error) {
      client.close();
      const folder = folderOf(this.stateDir, spec.id);
      const log = (readState(folder, 'log') ?? '').trim();
      await endSandbox(folder);
      const reason = error instanceof Error ? error.message : String(error);
      throw new SandboxUnavailable(`sandbox ${spec.id} could not be made: ${log === '' ? reason : `${reason}: ${log}`}`);
    }
  }

  /** Leaves a sandbox that answers under the id: this process launched it, or found it alive. */
  private async launchOnce(spec: SandboxSpec): Promise<void> {
    const deadline = Date.now() + LAUNCHED_WITHIN_MS;
    for (;;) {
      const claimed = claimFolder(this.stateDir, spec.id);
      if (claimed !== undefined) {
        await this.launchIn(claimed, spec);
        return;
      }
      const folder = folderOf(this.stateDir, spec.id);
      if (await this.answers(spec.id)) return;
      if (!isBeingMade(folder) || Date.now() > deadline) await endSandbox(folder);
      else await sleep(10);
    }
  }

  private async launchIn(folder: string, spec: SandboxSpec): Promise<void> {
    launching.add(folder);
    try {
      await launch(this.host, folder, spec);
    } catch (error) {
      await endSandbox(folder);
      throw error;
    } finally {
      launching.delete(folder);
    }
  }

  private async answers(id: string): Promise<boolean> {
    const client = this.clientOf(id);
    try {
      await client.hello();
      return true;
    } catch {
      return false;
    } finally {
      client.close();
    }
  }

  /** Files, set-up and a probe of the shell, each of which happens once however often it is asked for. */
  private async start(client: SupervisorClient, spec: SandboxSpec): Promise<void> {
    const given = client.init(supervisorSpec(spec, this.host.cgroups !== undefined));
    const probe = { callId: 'longhaul:probe', command: 'true', timeoutMs: PROBE_TIMEOUT_MS, outputLimit: 4096 };
    const setup = { callId: 'longhaul:setup', command: spec.setup ?? '', timeoutMs: SETUP_TIMEOUT_MS, outputLimit: 4096, fresh: true };
    const calls = spec.setup === undefined ? [probe] : [setup, probe];
    const results = await Promise.all([given, ...calls.map((call) => client.exec(call))]);
    for (const result of results)
      if (typeof result !== 'boolean' && result.exitCode !== 0)
        throw new SandboxUnavailable(`its set-up ended with ${result.exitCode ?? result.signal}: ${result.output}`);
    const folder = folderOf(this.stateDir, spec.id);
    const inner = innerProcess(folder);
    if (inner !== undefined) writeIdentity(folder, 'inner', inner);
  }
}

/** Errors: `SandboxUnavailable` when this machine has no bubblewrap. */
export function createBubblewrapProvider(options: BubblewrapOptions): BubblewrapProvider {
  return new Provider(options);
}
