/** Real sandboxes for tests: a provider with its own state directory. Its sandboxes are destroyed afterwards. */

import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, it } from 'vitest';

import { createBubblewrapProvider } from '../../sandboxes/bubblewrap/provider.ts';
import type { Transport } from '../../sandboxes/docker/container.ts';
import { createDockerProvider, type DockerOptions, type DockerProvider } from '../../sandboxes/docker/provider.ts';
import type { ExecCall, ExecResult, Sandbox, SandboxSpec } from '../../sandboxes/sandbox.ts';
import type { HostProvider } from '../../sandboxes/supervised/provider.ts';
import { buildSupervisor } from '../../sandboxes/supervisor/build.ts';
import type { ToolsGuard } from '../../sandboxes/tools-folder.ts';
import { dockerForTests } from '../support/containers/docker-daemon.ts';
import { lacksPodman, podmanForTests } from '../support/containers/podman-service.ts';

export const cache = process.env['LONGHAUL_CACHE'] ?? join(homedir(), '.cache', 'longhaul');

export interface Bench {
  readonly kind: 'bubblewrap' | 'docker';
  readonly provider: HostProvider;
  readonly stateDir: string;
  readonly supervisorPath: string;
  /** The socket of a sandbox's supervisor, in its folder. */
  readonly socket: string;
  /** True if memory is limited for the sandbox as a whole, and out-of-memory kills are counted. */
  readonly countsMemory: boolean;
  /** Opens another provider for the same sandboxes, as another process would. */
  reopen(): Promise<HostProvider>;
  /** Source text with which a separate process opens such a `provider`. */
  readonly program: string;
}

type Kind = { readonly kind: 'bubblewrap' } | { readonly kind: 'docker'; readonly transport: Transport };

let kind: Kind = { kind: 'bubblewrap' };

/** From now on `openBench` opens Docker: a test file calls this, and then imports the tests that it shares. */
export function overDocker(transport: Transport): void {
  kind = { kind: 'docker', transport };
}

let service = dockerForTests;

/**
 * As `overDocker`, with Podman's service in place of Docker. If Podman is missing, a skipped test replaces `suites`.
 */
export async function overPodman(transport: Transport, suites: ReadonlyArray<() => Promise<unknown>>): Promise<void> {
  const lacks = lacksPodman();
  if (lacks !== undefined) {
    it.skip(`over Podman: ${lacks}`, () => undefined);
    return;
  }
  service = podmanForTests;
  overDocker(transport);
  for (const suite of suites) await suite();
}

const modules = join(import.meta.dirname, '../../sandboxes');

/** What both kinds of provider may be given. */
interface BenchOptions {
  /** Absent: sandboxes see no folder of tools. */
  readonly guardTools?: ToolsGuard;
}

/** A provider for one test file. It fails with the missing program if there is no bubblewrap, Docker or C compiler. */
export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  return kind.kind === 'docker'
    ? await openDockerBench({ transport: kind.transport, ...options })
    : await openBubblewrapBench(options);
}

async function place(): Promise<{ readonly stateDir: string; readonly supervisorPath: string }> {
  const supervisorPath = await buildSupervisor(join(cache, 'supervisor'));
  return { stateDir: mkdtempSync(join(tmpdir(), 'longhaul-sandboxes-')), supervisorPath };
}

function cleanAfter(provider: HostProvider, stateDir: string): void {
  afterAll(async () => {
    await provider.sweep(() => false);
    rmSync(stateDir, { recursive: true, force: true });
  });
}

export async function openBubblewrapBench(options: BenchOptions = {}): Promise<Bench> {
  const at = await place();
  const provider = createBubblewrapProvider({ ...at, ...options });
  cleanAfter(provider, at.stateDir);
  const program = `
    import { createBubblewrapProvider } from '${modules}/bubblewrap/provider.ts';
    const provider = createBubblewrapProvider(${JSON.stringify(at)});`;
  const countsMemory = provider.limits.memory !== 'rlimit';
  return {
    kind: 'bubblewrap',
    provider,
    ...at,
    socket: 'socket',
    countsMemory,
    reopen: async () => createBubblewrapProvider({ ...at, ...options }),
    program,
  };
}

/** A bench over Docker, in a test file of any kind. */
export async function openDockerBench(
  changes: Partial<DockerOptions> = {},
): Promise<Bench & { readonly provider: DockerProvider }> {
  const at = await place();
  const { docker, host } = await service();
  // The result of these tests must not depend on whether a registry answers.
  const options = { ...at, cache, published: null, ...changes };
  const provider = await createDockerProvider({ ...options, docker });
  // Building the base image takes minutes the first time, which is longer than a test's limit.
  await provider.images.ensure(undefined);
  cleanAfter(provider, at.stateDir);
  const program = `
    import { dockerClient } from '${modules}/docker/client.ts';
    import { createDockerProvider } from '${modules}/docker/provider.ts';
    const docker = dockerClient(${JSON.stringify({ DOCKER_HOST: host })});
    const provider = await createDockerProvider({ ...${JSON.stringify(options)}, docker });`;
  const reopen = async () => await createDockerProvider({ ...options, docker });
  return { kind: 'docker', provider, ...at, socket: 'run/socket', countsMemory: true, reopen, program };
}

/** Time to live: longer than a file of tests lasts on a busy machine, since a suite may share a sandbox. */
const TTL_SECONDS = 1200;

export function specOf(id: string, changes: Partial<SandboxSpec> = {}): SandboxSpec {
  return {
    id,
    workdir: '/workspace',
    files: [],
    env: {},
    limits: { memoryMiB: 256, processes: 64, diskMiB: 64 },
    ttlSeconds: TTL_SECONDS,
    ...changes,
  };
}

let calls = 0;

export const callOf = (command: string, changes: Partial<ExecCall> = {}): ExecCall => {
  calls += 1;
  return { callId: `call-${calls}`, command, timeoutMs: 20_000, outputLimit: 100_000, ...changes };
};

export const sh = async (sandbox: Sandbox, command: string, changes: Partial<ExecCall> = {}): Promise<ExecResult> =>
  await sandbox.exec(callOf(command, changes));

/** Calls `look` until it returns a value. Fails after two minutes, which is enough for a busy machine. */
export async function eventually<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (const deadline = Date.now() + 120_000; Date.now() < deadline;) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`never happened: ${what}`);
}

/** Processes on the host whose command line has `text`. */
export function onHost(text: string): number {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/u.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text);
    } catch {
      return false;
    }
  }).length;
}

/** Makes the sandbox in a separate process, which is killed `delayMs` after its start; it may have finished by then. */
export async function makeAndKill(bench: Bench, spec: SandboxSpec, delayMs: number): Promise<void> {
  const program = `
    ${bench.program}
    process.stdout.write('up');
    await provider.create(JSON.parse(process.argv[1]));`;
  const maker = spawn(process.execPath, ['--input-type=module', '-e', program, JSON.stringify(spec)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const dead = new Promise((resolve) => maker.once('exit', resolve));
  await new Promise((resolve) => maker.stdout.once('data', resolve));
  await new Promise((resolve) => setTimeout(resolve, delayMs));
  maker.kill('SIGKILL');
  await dead;
}
