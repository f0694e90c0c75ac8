/**
 * Starts, reaches and ends the container of one sandbox. Its name is derived from the sandbox's id and is recorded
 * before the container exists, so that the process which cleans up after this one finds the container.
 */

import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  allOf,
  endingFolders,
  folderName,
  listFolders,
  readIdentity,
  removeFolder,
  setAside,
} from '../supervised/state.ts';
import { SandboxImpossible, SandboxLost, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts';
import { TOOLS_AT } from '../tools-folder.ts';
import type { Launcher } from '../supervised/launcher.ts';
import { isAlive } from '../supervised/process-identity.ts';
import { hostsFile } from '../supervised/runtime.ts';
import { SupervisorClient } from '../supervisor/client.ts';
import { type Dial, dialSocket } from '../supervisor/connection.ts';
import { type Accounts, accountsOf, uidOf, writeAccounts } from './accounts.ts';
import {
  CLAIM_LABEL,
  type ContainerPlan,
  containerOptions,
  LABEL,
  SCOPE_LABEL,
  type Transport,
  wantsQuota,
} from './container.ts';
import { classifyDocker, type Engine, isNameTaken, lacksImage, statusOf, within, userProcessLimit } from './engine.ts';
import { openExecChannel } from './exec-channel.ts';
import type { Images } from './images/images.ts';
import {
  imageChangesOf,
  inspectContainer,
  noteLaunched,
  readRecord,
  removeContainer,
  wasLaunched,
  writeRecord,
} from './record.ts';

const ANSWERS_WITHIN_MS = 60_000;
/** Minimum age of a container without a record before it is removed: a younger one may still get its record. */
const ORPHAN_AFTER_MS = 120_000;
/** Waits for a name that is taken by a container which cannot be inspected: 7 s in all. */
const NAME_WAITS = 12;
/** Error of a daemon whose file system has no quotas. */
const NO_QUOTA = /quota|storage[ -]?opt/iu;
const RUN = 'run';
/** States of an ended container, of Docker and of Podman. */
const ENDED: ReadonlySet<string> = new Set(['exited', 'dead', 'removing', 'stopped']);
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface DockerHost {
  readonly engine: Engine;
  readonly images: Images;
  readonly stateDir: string;
  readonly supervisorPath: string;
  readonly runtime: string | undefined;
  readonly transport: Transport;
  /** True if the runtime's containers have their own kernel. */
  readonly ownKernel: boolean;
}

/** The label value that marks the containers of this state directory. */
export const scopeOf = (stateDir: string): string =>
  createHash('sha256').update(realpathSync(stateDir)).digest('hex').slice(0, 12);

const dialContainer =
  (engine: Engine, folder: string): Dial =>
  async () => {
    const record = readRecord(folder);
    if (record === undefined) throw new SandboxLost(`no sandbox in ${folder}`);
    return await openExecChannel(engine, record.name);
  };

export class DockerLauncher implements Launcher {
  readonly name = 'docker';
  readonly asOther = true;
  readonly whole = { memory: true, processes: true, path: PATH };
  readonly imageChanges?: Launcher['imageChanges'];
  private readonly host: DockerHost;
  private readonly scope: string;
  /** False after the daemon reported that it has none: only overlay on XFS with `pquota`, btrfs and ZFS have quotas. */
  private quota = true;
  /** By the digest of the image. */
  private readonly accounts = new Map<string, Accounts>();

  constructor(host: DockerHost) {
    this.host = host;
    this.scope = scopeOf(host.stateDir);
    // A kernel of its own may keep its files to itself: the daemon then lists nothing.
    if (!host.ownKernel) this.imageChanges = (folder) => imageChangesOf(host.engine, folder);
  }

  check({ network, toolsFolder }: SandboxSpec): void {
    // Podman's service writes a mount as one line, in which these characters have a meaning.
    if (toolsFolder !== undefined && this.host.engine.podman && /[,"]/u.test(toolsFolder))
      throw new SandboxImpossible(`toolsFolder ${toolsFolder}: Podman mounts no path with commas or quotes`);
    if (network !== undefined && this.host.ownKernel)
      throw new SandboxImpossible(
        `network of ${network.names.join(', ')}: ` +
          `containers of the runtime ${this.host.runtime ?? this.host.engine.defaultRuntime} each have a network ` +
          'of their own; unset LONGHAUL_DOCKER_RUNTIME',
      );
  }

  async prepare(spec: SandboxSpec, onLine?: (line: string) => void): Promise<void> {
    await this.host.images.ensure(spec.image, onLine, spec.build);
  }

  async launch(folder: string, spec: SandboxSpec): Promise<void> {
    const plan = await this.plan(folder, spec);
    mkdirSync(plan.runFolder, { mode: 0o700, recursive: true });
    writeRecord(folder, plan);
    if (await this.createOrAdopt(folder, spec, plan)) {
      try {
        await within('start', this.host.engine.docker.getContainer(plan.name).start());
      } catch (error) {
        await this.mustBeWanted(folder, plan, spec.id);
        // For every status: a created container may start at a later attempt.
        throw new SandboxUnavailable(
          `sandbox ${spec.id} does not start: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
      await this.untilItAnswers(folder, plan, spec.id);
    }
    noteLaunched(folder);
  }

  dial(folder: string): Dial {
    return this.host.transport === 'socket'
      ? dialSocket(join(folder, RUN, 'socket'))
      : dialContainer(this.host.engine, folder);
  }

  async end(folder: string): Promise<void> {
    setAside(folder);
    for (const ending of endingFolders(dirname(folder), basename(folder))) await this.endFolder(ending);
  }

  async finishEndings(): Promise<void> {
    await allOf([
      ...endingFolders(this.host.stateDir, '').map((ending) => () => this.endFolder(ending)),
      () => this.removeOrphans(),
    ]);
  }

  async ended(folders: readonly string[]): Promise<string[]> {
    // First the launched ones, then the running ones: a sandbox that is launched in between must not count as ended.
    const launched = new Set(folders.filter(wasLaunched));
    const running = new Set(await this.containers((state) => !ENDED.has(state)));
    return folders.filter((folder) => {
      const maker = readIdentity(folder, 'maker');
      if (!launched.has(folder)) return maker === undefined || !isAlive(maker);
      return !running.has(readRecord(folder)?.claim ?? '');
    });
  }

  private async plan(folder: string, spec: SandboxSpec): Promise<ContainerPlan> {
    const uid = uidOf(spec.id, this.host.engine);
    return {
      name: this.nameOf(spec.id),
      claim: randomUUID(),
      scope: this.scope,
      ...(await this.imageOf(folder, spec, uid)),
      uid,
      runtime: this.host.runtime,
      transport: this.host.transport,
      ownKernel: this.host.ownKernel,
      runFolder: join(folder, RUN),
      supervisorPath: this.host.supervisorPath,
      quota: this.quota,
      podman: this.host.engine.podman,
      userProcesses: userProcessLimit(this.host.engine),
      joins: spec.network?.joins === undefined ? undefined : this.nameOf(spec.network.joins),
    };
  }

  private nameOf(id: string): string {
    return `longhaul-${this.scope}-${folderName(id)}`;
  }

  /** The file that names the sandboxes of its network, and the folder of tools. */
  private ownMounts({ network, toolsFolder }: SandboxSpec): ReadonlyArray<readonly [source: string, target: string]> {
    return [
      ...(network === undefined
        ? []
        : [[hostsFile({ supervisor: this.host.supervisorPath }, network), '/etc/hosts'] as const]),
      ...(toolsFolder === undefined ? [] : [[toolsFolder, TOOLS_AT] as const]),
    ];
  }

  /** The image, and account files with the user names that its files and tests may use. */
  private async imageOf(
    folder: string,
    spec: SandboxSpec,
    uid: number,
  ): Promise<Pick<ContainerPlan, 'image' | 'files'>> {
    const { engine, images } = this.host;
    const { id, image: name, build } = spec;
    const own = this.ownMounts(spec);
    for (let tries = 0; ; tries += 1) {
      const image = await images.ensure(name, undefined, build);
      if (!images.isGiven(name)) return { image, files: [...writeAccounts(folder, uid), ...own] };
      try {
        const accounts =
          this.accounts.get(image) ??
          (await accountsOf(engine, image, {
            [LABEL]: 'accounts',
            [SCOPE_LABEL]: this.scope,
            [CLAIM_LABEL]: randomUUID(),
          }));
        this.accounts.set(image, accounts);
        return { image, files: [...writeAccounts(folder, uid, accounts), ...own] };
      } catch (error) {
        if (tries === 3 || !lacksImage(error))
          throw classifyDocker(`sandbox ${id}: the accounts of its image cannot be read`, error);
        // The image was removed since it was found.
        images.forget(name);
      }
    }
  }

  /** Returns false if a live container of this name answers: it is then adopted. */
  private async createOrAdopt(folder: string, spec: SandboxSpec, first: ContainerPlan): Promise<boolean> {
    const { engine, images } = this.host;
    let plan = first;
    let waits = 0;
    for (let tries = 0; ; tries += 1) {
      try {
        await within('create', engine.docker.createContainer(containerOptions(spec, plan)));
        return true;
      } catch (error) {
        // Checked first: if the folder is gone, the daemon reports an impossible request.
        await this.mustBeWanted(folder, plan, spec.id);
        const taken = isNameTaken(error);
        const gone = lacksImage(error);
        if (plan.quota && wantsQuota(spec) && statusOf(error) !== undefined && !taken && !gone) {
          // Retry without a quota, whatever the error: it may succeed, or else give the real error. Quotas are switched
          // off for later containers only if the error is about them.
          if (NO_QUOTA.test(String(error))) this.quota = false;
          plan = { ...plan, quota: false };
          continue;
        }
        if (tries === 3 || (!taken && !gone)) throw classifyDocker(`sandbox ${spec.id} cannot be created`, error);
        if (gone) {
          // The image was removed since it was found.
          images.forget(spec.image);
          plan = { ...plan, ...(await this.imageOf(folder, spec, plan.uid)) };
        }
      }
      const there = await inspectContainer(engine, plan.name);
      if (there === undefined) {
        // A daemon reserves a name before the container can be inspected, and releases it after the container is gone.
        if (waits < NAME_WAITS) {
          await sleep(Math.min(25 * 2 ** waits, 1000));
          waits += 1;
          tries -= 1;
        }
        continue;
      }
      if (there.scope !== this.scope || there.sandbox !== spec.id)
        throw new SandboxUnavailable(
          `sandbox ${spec.id}: the name ${plan.name} belongs to a container that Longhaul did not make; ` +
            `remove it: docker rm -f ${plan.name}`,
        );
      writeRecord(folder, { name: plan.name, claim: there.claim });
      if (await this.clientOf(folder, spec.id).answers()) return false;
      await removeContainer(engine, there.id);
      writeRecord(folder, plan);
    }
  }

  private clientOf(folder: string, id: string): SupervisorClient {
    return new SupervisorClient(id, this.dial(folder));
  }

  private async untilItAnswers(folder: string, plan: ContainerPlan, id: string): Promise<void> {
    const deadline = Date.now() + ANSWERS_WITHIN_MS;
    for (let tries = 1; !(await this.clientOf(folder, id).answers()); tries += 1) {
      await this.mustBeWanted(folder, plan, id);
      if (tries % 20 === 0 || Date.now() > deadline) await this.mustRun(folder, plan.name, id, deadline);
      await sleep(Math.min(2 * tries, 50));
    }
    await this.mustBeWanted(folder, plan, id);
  }

  /** Removes the container and fails if the sandbox was ended meanwhile, perhaps before there was a container. */
  private async mustBeWanted(folder: string, { name, claim }: ContainerPlan, id: string): Promise<void> {
    if (readRecord(folder)?.claim === claim) return;
    const there = await inspectContainer(this.host.engine, name);
    if (there?.claim === claim) await removeContainer(this.host.engine, there.id);
    throw new SandboxUnavailable(`sandbox ${id} was ended while it was being created`);
  }

  private async mustRun(folder: string, name: string, id: string, deadline: number): Promise<void> {
    const { State } = await within('inspect', this.host.engine.docker.getContainer(name).inspect());
    if (State.Running && Date.now() <= deadline) return;
    const log = await this.logOf(folder, name);
    const how = State.Running
      ? 'does not answer'
      : `ended with ${State.ExitCode}${State.OOMKilled ? ' (out of memory)' : ''}`;
    throw new SandboxUnavailable(`sandbox ${id}: its supervisor ${how}: ${log}`);
  }

  private async logOf(folder: string, name: string): Promise<string> {
    try {
      const own = this.host.transport === 'socket' ? readFileSync(join(folder, RUN, 'log'), 'utf8') : '';
      const said = await within(
        'logs',
        this.host.engine.docker.getContainer(name).logs({ stdout: true, stderr: true, tail: 20 }),
      );
      return `${own}${said.toString('utf8')}`.trim().slice(0, 2000) || 'no reason given';
    } catch {
      return 'no reason given';
    }
  }

  private async endFolder(folder: string): Promise<void> {
    const record = readRecord(folder);
    const there = record === undefined ? undefined : await inspectContainer(this.host.engine, record.name);
    // By now, a new sandbox with the same id may have a container with the same name.
    if (there !== undefined && there.claim === record?.claim) await removeContainer(this.host.engine, there.id);
    removeFolder(folder);
  }

  /** The claims of this state directory's containers. */
  private async containers(wanted: (state: string) => boolean, olderThanMs = 0): Promise<string[]> {
    // States are filtered here: Podman rejects a filter with a state that it does not know.
    const filters = { label: [`${SCOPE_LABEL}=${this.scope}`] };
    const all = await within('list', this.host.engine.docker.listContainers({ all: true, filters }));
    return all
      .filter(({ Created, State }) => wanted(State) && Date.now() - Created * 1000 >= olderThanMs)
      .map(({ Labels }) => Labels[CLAIM_LABEL] ?? '');
  }

  /**
   * Removes containers that have this state directory's label and no record in it. The records are read twice: a folder
   * is renamed at most once while its sandbox lives (when a warm one is taken), so one of the two reads finds it.
   */
  async removeOrphans(olderThanMs: number = ORPHAN_AFTER_MS): Promise<void> {
    const labelled = await this.containers((state) => state !== 'removing', olderThanMs);
    const recorded = this.recordedClaims();
    for (const claim of labelled.filter((each) => !recorded.has(each))) {
      if (this.recordedClaims().has(claim)) continue;
      const filters = { label: [`${CLAIM_LABEL}=${claim}`] };
      const found = await within('list', this.host.engine.docker.listContainers({ all: true, filters }));
      for (const { Id } of found) await removeContainer(this.host.engine, Id);
    }
  }

  private recordedClaims(): Set<string | undefined> {
    return new Set(listFolders(this.host.stateDir).map(({ folder }) => readRecord(folder)?.claim));
  }
}
