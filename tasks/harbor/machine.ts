/**
 * The sandboxes of a task folder. Images are built or pulled by Docker; with `files` a task whose Dockerfile only
 * copies runs on any kind of sandbox, since its files are then written there.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { ImageBuild, SandboxFile, SandboxLimits } from '../../sandboxes/sandbox.ts';
import { MAIN, type Resources, type SandboxRequest } from '../environment.ts';
import { healthLine, readCompose, type Service, shellLine } from './compose.ts';
import { type Dockerfile, readDockerfile } from './dockerfile.ts';
import { digestOfFolder, filesIn, isFile, isFolder } from './folder.ts';
import type { TaskFolder } from './read-task.ts';
import type { TomlEnvironment } from './task-toml.ts';
import { filledAll, type Variables } from './templates.ts';

/** Places of the format, beside the working folder, that the sandbox's user may write. */
const FOLDERS = ['/tests', '/logs', '/solution'] as const;
const NETWORK = 'task';
/** MiB of a sandbox whose files are in memory. A task's own number is meant for a disk. */
const FILES_DISK_MIB = 512;
const PROCESSES = 512;
/**
 * Upstream the agent is root, whom no file's mode stops. Here it owns the working folder, and gets the rights of an
 * owner.
 */
const OWN = 'find . ! -type l ! -perm -u=w -exec chmod u+rwX {} + 2>/dev/null; true';
const COMPOSE = ['docker-compose.yaml', 'docker-compose.yml', 'compose.yaml'];

/** The values that Terminal-Bench 1 gives its compose files. */
const LEGACY: Variables = {
  T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME: 'client',
  T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME: 'client',
  T_BENCH_TASK_DOCKER_NAME_PREFIX: 'task',
  T_BENCH_TASK_LOGS_PATH: '/logs',
  T_BENCH_TASK_AGENT_LOGS_PATH: '/agent-logs',
  T_BENCH_CONTAINER_LOGS_PATH: '/logs',
  T_BENCH_CONTAINER_AGENT_LOGS_PATH: '/agent-logs',
  T_BENCH_TEST_DIR: '/tests',
};

export interface MachineOptions {
  /** `build`, `files`, or an image reference with `{name}` in it. */
  readonly image: string;
  readonly env: Variables;
  /** Where the agent works if the task does not say it. */
  readonly workdir: string;
  /** Bounds on what a task may ask for. */
  readonly most: {
    readonly memoryMiB?: number | undefined;
    readonly cpus?: number | undefined;
    readonly diskMiB?: number | undefined;
  };
}

export interface Machine {
  readonly sandboxes: Readonly<Record<string, SandboxRequest>>;
  readonly workdir: string;
}

const bounded = (value: number | undefined, most: number | undefined): number | undefined =>
  value === undefined ? most : Math.min(value, most ?? Infinity);

/** Limits of the task as `resources`. */
export function resourcesOf(
  { environment }: { readonly environment: TomlEnvironment },
  { image, most }: MachineOptions,
): Resources {
  const memory = bounded(environment.memory_mb ?? environment.memory, most.memoryMiB);
  const disk = bounded(environment.storage_mb ?? environment.storage, most.diskMiB);
  const cpus = bounded(environment.cpus, most.cpus);
  const diskMiB = image === 'files' ? Math.min(disk ?? FILES_DISK_MIB, most.diskMiB ?? FILES_DISK_MIB) : disk;
  return {
    ...(memory !== undefined && { memoryMiB: Math.ceil(memory) }),
    ...(diskMiB !== undefined && { diskMiB: Math.ceil(diskMiB) }),
    ...(cpus !== undefined && { cpus }),
    setUpSeconds: environment.build_timeout_sec,
  };
}

/** The files that a Dockerfile copies, where they come to lie. Errors: `UserInputError` for one that needs a build. */
function copiedFiles(file: string, context: string, { built, copies }: Dockerfile): SandboxFile[] {
  const [step] = built;
  if (step !== undefined)
    throw new UserInputError(
      file,
      step,
      'it needs an image: use Docker (options.image: build), or leave the task out (options.except)',
    );
  return copies.flatMap(({ from, to }) =>
    from.flatMap((source): SandboxFile[] => {
      const path = join(context, posix.normalize(`/${source}`));
      if (isFolder(path))
        return filesIn(path).map((each) => ({
          path: posix.join(to, each.path),
          content: each.content,
          mode: each.mode | 0o600,
        }));
      if (!isFile(path))
        throw new UserInputError(file, source, 'its files to copy must be in the folder, by their names');
      const isInto = to.endsWith('/') || from.length > 1;
      return [{ path: isInto ? posix.join(to, posix.basename(source)) : to, content: readFileSync(path) }];
    }),
  );
}

/** The folders at the top level that files come to lie in, beyond the working folder. */
function foldersFor(files: readonly SandboxFile[], workdir: string): string[] {
  const inside = (path: string): boolean =>
    path === workdir || path.startsWith(`${workdir}/`) || path.startsWith('/tmp/');
  const tops = files.filter(({ path }) => !inside(path)).map(({ path }) => `/${path.split('/')[1] ?? ''}`);
  return [...new Set([...FOLDERS, ...tops])];
}

interface Part {
  readonly context: string;
  readonly dockerfile: string;
  readonly arguments: Readonly<Record<string, string>>;
}

function buildOf(part: Part, seconds: number): { readonly image: string; readonly build: ImageBuild } {
  const digest = `${digestOfFolder(part.context)} ${part.dockerfile} ${JSON.stringify(part.arguments)}`;
  const tag = `longhaul-task:${createHash('sha256').update(digest).digest('hex').slice(0, 24)}`;
  return {
    image: tag,
    build: { context: part.context, dockerfile: part.dockerfile, arguments: part.arguments, seconds },
  };
}

function readPart(part: Part): Dockerfile | undefined {
  const path = join(part.context, part.dockerfile);
  return isFile(path) ? readDockerfile(readFileSync(path, 'utf8'), part.arguments) : undefined;
}

/** What a sandbox is made of, from an image that is named or a Dockerfile. Neither: Longhaul's base image. */
function madeOf(
  { part, named, fallback }: { part: Part; named: string | undefined; fallback: string },
  own: { readonly env: Readonly<Record<string, string>>; readonly workdir?: string | undefined },
  { image, name, seconds }: { readonly image: string; readonly name: string; readonly seconds: number },
): SandboxRequest {
  const read = readPart(part);
  const workdir = own.workdir ?? read?.workdir ?? fallback;
  const env = { ...read?.env, ...own.env };
  if (image === 'files') {
    const files = read === undefined ? [] : copiedFiles(join(part.context, part.dockerfile), part.context, read);
    return { workdir, env, files, folders: foldersFor(files, workdir) };
  }
  const built = image.includes('{name}')
    ? { image: image.replaceAll('{name}', name) }
    : named !== undefined
      ? { image: named }
      : read === undefined
        ? {}
        : buildOf(part, seconds);
  // Upstream, a prebuilt image comes with the folder's other files, if they are not what it was built of.
  const files =
    named !== undefined && read === undefined
      ? filesIn(part.context)
          .filter(({ path }) => !COMPOSE.includes(path))
          .map(({ path, content, mode }) => ({ path: posix.join(workdir, path), content, mode }))
      : [];
  const hasImage = 'image' in built;
  return { workdir, env, files, folders: FOLDERS, ...built, ...(hasImage && { profile: 'swe' as const, setup: OWN }) };
}

function servicesOf({ environment, name }: TaskFolder, env: Variables): Record<string, Service> {
  const file = COMPOSE.map((each) => join(environment, each)).find(isFile);
  const variables = { ...LEGACY, TASK_NAME: name, ...env };
  return file === undefined ? {} : readCompose(readFileSync(file, 'utf8'), file, variables);
}

/** Starts a service's command in the background, and waits for its health. */
function started(service: Service, read: Dockerfile | undefined, file: string): string {
  const words = [...(service.entrypoint ?? []), ...(service.command ?? [])];
  const line = words.length > 0 ? words : read?.command;
  if (line === undefined)
    throw new UserInputError(file, undefined, 'give the service a command: that of its image is not known');
  const health = healthLine(service);
  const begin = `setsid ${shellLine(line)} >/tmp/service.log 2>&1 </dev/null &`;
  if (health === undefined) return begin;
  return (
    `${begin}\nfor _ in $(seq 600); do { ${health}\n} >/dev/null 2>&1 && exit 0; sleep 0.5; done; ` +
    'tail -c 2000 /tmp/service.log; exit 1'
  );
}

const SANDBOX = /^[a-z][a-z0-9-]{0,30}$/u;

/** The task's sandboxes. Errors: `UserInputError` with the file and what it asks for. */
export function machineOf(task: TaskFolder, options: MachineOptions): Machine {
  const { toml, environment, folder, main: mainService, name } = task;
  const services = servicesOf(task, options.env);
  const mine = services[mainService];
  const seconds = toml.environment.build_timeout_sec;
  const partOf = (service: Service | undefined): Part => ({
    context: join(environment, service?.build?.context ?? '.'),
    dockerfile: service?.build?.dockerfile ?? 'Dockerfile',
    arguments: service?.build?.args ?? {},
  });
  const slug = posix.basename(folder).toLowerCase();
  const env = { ...mine?.environment, ...filledAll(toml.environment.env, options.env, `${name}: environment.env`) };
  const own = { env, workdir: toml.environment.workdir ?? mine?.working_dir };
  const named =
    toml.environment.docker_image ?? (mine?.build === undefined && mainService === 'main' ? mine?.image : undefined);
  const using = { image: options.image, name: slug, seconds };
  const main = madeOf({ part: partOf(mine), named, fallback: options.workdir }, own, using);
  const limits: Partial<SandboxLimits> = { processes: PROCESSES };
  const others = Object.entries(services).filter(([each]) => each !== mainService);
  const network = others.length > 0 ? { network: NETWORK } : {};
  const file = COMPOSE.map((each) => join(environment, each)).find(isFile) ?? environment;
  const further = others.map(([each, service]): [string, SandboxRequest] => {
    const label = each.toLowerCase().replaceAll('_', '-');
    if (!SANDBOX.test(label) || label !== each)
      throw new UserInputError(
        `${file}: services`,
        each,
        'a service is reached by its name: give letters, digits and dashes',
      );
    const part = partOf(service);
    const image = options.image === 'files' ? 'files' : 'build';
    const request = madeOf(
      { part, named: service.build === undefined ? service.image : undefined, fallback: '/service' },
      { env: service.environment, workdir: service.working_dir },
      { image, name: each, seconds },
    );
    return [
      each,
      { ...request, limits, ...network, setup: started(service, readPart(part), `${file}: services.${each}.command`) },
    ];
  });
  return {
    workdir: main.workdir,
    sandboxes: { [MAIN]: { ...main, limits, ...network }, ...Object.fromEntries(further) },
  };
}

/** The sandbox of a verifier that has an environment of its own; `undefined`: it has that of the agent, made afresh. */
export function verifierMachine(task: TaskFolder, options: MachineOptions): SandboxRequest | undefined {
  const own = task.toml.verifier.environment;
  if (own === undefined) return undefined;
  const part = { context: join(task.folder, 'tests'), dockerfile: 'Dockerfile', arguments: {} };
  const env = filledAll(own.env, options.env, `${task.name}: verifier.environment.env`);
  const using = {
    image: options.image === 'files' ? 'files' : 'build',
    name: task.name,
    seconds: own.build_timeout_sec,
  };
  return madeOf({ part, named: own.docker_image, fallback: options.workdir }, { env, workdir: own.workdir }, using);
}
