/**
 * The provider for every kind of launcher. It makes a sandbox once, even if `create` is called several times. A sandbox
 * belongs to its lease, not to a process: any process on this host with the same state directory can use it and end it.
 */

import { setTimeout as sleep } from 'node:timers/promises';

import { type ToolsGuard, withRealTools } from '../tools-folder.ts';
import { type Sandbox, SandboxLost, type SandboxProvider, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts';
import { SupervisorClient } from '../supervisor/client.ts';
import { SupervisedSandbox } from './handle.ts';
import type { Launcher } from './launcher.ts';
import { isAlive } from './process-identity.ts';
import { checkSpec, supervisorSpec } from './spec.ts';
import {
  claimFolder,
  folderOf,
  listFolders,
  passOnFolder,
  readIdentity,
  readState,
  removeHalfClaimed,
  writeId,
} from './state.ts';

const SET_UP_SECONDS = 600;
const PROBE_TIMEOUT_MS = 30_000;
const LAUNCHED_WITHIN_MS = 60_000;

/** Folders in which this process is launching a sandbox. */
const launching = new Set<string>();

/** True if a sandbox that does not answer yet may still do so. */
function isBeingMade(folder: string): boolean {
  const owner = readIdentity(folder, 'owner');
  if (owner !== undefined) return isAlive(owner);
  const maker = readIdentity(folder, 'maker');
  return maker !== undefined && (maker.pid === process.pid ? launching.has(folder) : isAlive(maker));
}

/** A provider whose sandboxes live on this host. */
export interface HostProvider extends SandboxProvider {
  ended(): Promise<string[]>;
  /** Destroys every sandbox for which `isLive` returns false. Returns their ids. */
  sweep(isLive: (id: string) => boolean): Promise<string[]>;
  /** Starts a sandbox of `shape` without files. It ends by itself after `ttlSeconds`. */
  warm(id: string, shape: SandboxShape, ttlSeconds: number): Promise<void>;
  /** Renews the time to live of a warm sandbox. Errors: `SandboxLost`. */
  keepWarm(id: string, ttlSeconds: number): Promise<void>;
  /**
   * Turns the warm sandbox `id` into the one of `spec`. Returns `undefined` if it is gone or was taken by another
   * process.
   */
  take(id: string, spec: SandboxSpec): Promise<Sandbox | undefined>;
}

/**
 * The properties that are fixed before a sandbox receives its files. Warm sandboxes of equal shape are interchangeable.
 */
export type SandboxShape = Pick<SandboxSpec, 'workdir' | 'limits' | 'image' | 'build' | 'folders' | 'profile' | 'cpus'>;

export class SupervisedProvider implements HostProvider {
  readonly name: string;
  private readonly stateDir: string;
  private readonly launcher: Launcher;
  private readonly guard: ToolsGuard | undefined;
  private readonly creating = new Map<string, Promise<Sandbox>>();

  /** `guard`: absent, sandboxes see no `toolsFolder`. */
  constructor(stateDir: string, launcher: Launcher, guard?: ToolsGuard) {
    this.name = launcher.name;
    this.stateDir = stateDir;
    this.launcher = launcher;
    this.guard = guard;
  }

  async prepare(given: SandboxSpec, onLine: (line: string) => void): Promise<void> {
    const spec = this.checked(given);
    await this.launcher.prepare?.(spec, onLine);
  }

  async create(given: SandboxSpec): Promise<Sandbox> {
    const spec = this.checked(given);
    const running = this.creating.get(spec.id);
    if (running !== undefined) return await running;
    const made = this.make(spec).finally(() => this.creating.delete(spec.id));
    this.creating.set(spec.id, made);
    return await made;
  }

  async connect(id: string): Promise<Sandbox> {
    const client = this.clientOf(id);
    try {
      if (await client.hello()) return this.handleOf(id, client);
    } catch (error) {
      client.close();
      throw error;
    }
    client.close();
    throw new SandboxLost(`sandbox ${id} never received its spec`);
  }

  async destroy(id: string): Promise<void> {
    await this.launcher.end(folderOf(this.stateDir, id));
  }

  async list(): Promise<string[]> {
    return await Promise.resolve(listFolders(this.stateDir).map(({ id }) => id));
  }

  async ended(): Promise<string[]> {
    removeHalfClaimed(this.stateDir);
    await this.launcher.finishEndings();
    const all = listFolders(this.stateDir).filter(({ id }) => !this.creating.has(id));
    const ended = new Set(await this.launcher.ended(all.map(({ folder }) => folder)));
    return all.filter(({ folder }) => ended.has(folder)).map(({ id }) => id);
  }

  async sweep(isLive: (id: string) => boolean): Promise<string[]> {
    const left = listFolders(this.stateDir).filter(({ id }) => !isLive(id) && !this.creating.has(id));
    for (const { folder } of left) await this.launcher.end(folder);
    return left.map(({ id }) => id);
  }

  async warm(id: string, shape: SandboxShape, ttlSeconds: number): Promise<void> {
    const spec = { ...shape, id, ttlSeconds, files: [], env: {} };
    await this.launcher.prepare?.(spec);
    await this.launchOnce(spec);
    await this.keepWarm(id, ttlSeconds);
  }

  async keepWarm(id: string, ttlSeconds: number): Promise<void> {
    const client = this.clientOf(id);
    try {
      await client.renew(Math.ceil(ttlSeconds * 1000));
    } finally {
      client.close();
    }
  }

  async take(id: string, spec: SandboxSpec): Promise<Sandbox | undefined> {
    checkSpec(spec);
    if (this.creating.has(spec.id) || !passOnFolder(this.stateDir, id, spec.id)) return undefined;
    const taken = this.finish(spec);
    this.creating.set(spec.id, taken);
    try {
      return await taken;
    } catch (error) {
      if (error instanceof SandboxUnavailable && error.cause instanceof SandboxLost) return undefined;
      throw error;
    } finally {
      this.creating.delete(spec.id);
    }
  }

  /** Errors: `SandboxImpossible`. */
  private checked(given: SandboxSpec): SandboxSpec {
    checkSpec(given);
    const spec = withRealTools(given, this.guard, this.launcher.asOther);
    this.launcher.check(spec);
    return spec;
  }

  private handleOf(id: string, client: SupervisorClient): Sandbox {
    const changes = this.launcher.imageChanges?.bind(this.launcher);
    return new SupervisedSandbox(id, client, changes && (() => changes(folderOf(this.stateDir, id))));
  }

  private clientOf(id: string): SupervisorClient {
    return new SupervisorClient(id, this.launcher.dial(folderOf(this.stateDir, id)));
  }

  private async make(spec: SandboxSpec): Promise<Sandbox> {
    await this.launcher.prepare?.(spec);
    await this.launchOnce(spec);
    return await this.finish(spec);
  }

  /** Gives a running sandbox its spec. If that fails, it ends the sandbox. */
  private async finish(spec: SandboxSpec): Promise<Sandbox> {
    const client = this.clientOf(spec.id);
    try {
      await this.start(client, spec);
      return this.handleOf(spec.id, client);
    } catch (error) {
      client.close();
      const folder = folderOf(this.stateDir, spec.id);
      const log = (readState(folder, 'log') ?? '').trim();
      await this.launcher.end(folder);
      const reason = error instanceof Error ? error.message : String(error);
      throw new SandboxUnavailable(
        `sandbox ${spec.id} could not be made: ${log === '' ? reason : `${reason}: ${log}`}`,
        { cause: error },
      );
    }
  }

  /** After it returns, a sandbox with this id answers: this process launched it, or found it alive. */
  private async launchOnce(spec: SandboxSpec): Promise<void> {
    const deadline = Date.now() + LAUNCHED_WITHIN_MS;
    for (;;) {
      const claimed = claimFolder(this.stateDir, spec.id);
      if (claimed !== undefined) {
        await this.launchIn(claimed, spec);
        return;
      }
      const folder = folderOf(this.stateDir, spec.id);
      if (await this.clientOf(spec.id).answers()) {
        writeId(folder, spec.id);
        return;
      }
      if (!isBeingMade(folder) || Date.now() > deadline) await this.launcher.end(folder);
      else await sleep(10);
    }
  }

  private async launchIn(folder: string, spec: SandboxSpec): Promise<void> {
    launching.add(folder);
    try {
      await this.launcher.launch(folder, spec);
    } catch (error) {
      await this.launcher.end(folder);
      throw error;
    } finally {
      launching.delete(folder);
    }
  }

  /** Writes the files, runs the set-up and probes the shell. Each happens once, even if this is called again. */
  private async start(client: SupervisorClient, spec: SandboxSpec): Promise<void> {
    const given = client.init(supervisorSpec(spec, this.launcher.whole));
    const probe = { callId: 'longhaul:probe', command: 'true', timeoutMs: PROBE_TIMEOUT_MS, outputLimit: 4096 };
    const setup = {
      callId: 'longhaul:setup',
      command: spec.setup ?? '',
      timeoutMs: (spec.setUpSeconds ?? SET_UP_SECONDS) * 1000,
      outputLimit: 4096,
      fresh: true,
    };
    const calls = spec.setup === undefined ? [probe] : [setup, probe];
    const results = await Promise.all([given, ...calls.map((call) => client.exec(call))]);
    for (const result of results)
      if (typeof result !== 'boolean' && result.exitCode !== 0)
        throw new SandboxUnavailable(
          result.timedOut
            ? `its set-up took longer than ${spec.setUpSeconds ?? SET_UP_SECONDS} s (resources.setUpSeconds): ` +
                `${result.output}`
            : `its set-up failed with ${result.exitCode ?? result.signal}: ${result.output}`,
        );
    this.launcher.started?.(folderOf(this.stateDir, spec.id));
  }
}
