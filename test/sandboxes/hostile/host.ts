/**
 * The host side of these tests: every provider, and the kernel's counters of a whole sandbox. Limits are read from
 * /proc and the control groups, never from a clock.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { innerProcess } from '../../../sandboxes/bubblewrap/end.ts';
import type { DockerProvider } from '../../../sandboxes/docker/provider.ts';
import { readRecord } from '../../../sandboxes/docker/record.ts';
import type { Sandbox, SandboxLimits } from '../../../sandboxes/sandbox.ts';
import { folderOf } from '../../../sandboxes/supervised/state.ts';
import { type Bench, openBubblewrapBench, openDockerBench, sh, specOf } from '../harness.ts';

export interface NamedBench extends Bench {
  /** `bubblewrap`, `docker by socket`, `docker by exec`. */
  readonly name: string;
}

/** Small, so that an attack reaches its limit soon. */
export const SMALL: SandboxLimits = { memoryMiB: 48, processes: 40, diskMiB: 16 };

const MIB = 1 << 20;

/** Both providers. Docker by `exec` too, if an attack might prevent new connections to the container. */
export async function openBenches(withExec = false): Promise<NamedBench[]> {
  const exec = withExec ? [{ ...(await openDockerBench({ transport: 'exec' })), name: 'docker by exec' }] : [];
  return [
    { ...(await openBubblewrapBench()), name: 'bubblewrap' },
    { ...(await openDockerBench({ transport: 'socket' })), name: 'docker by socket' },
    ...exec,
  ];
}

/** Resources of the host that a sandbox of `limits` may use, with the supervisor and attached connections. */
export function bounds(limits: SandboxLimits, { name }: NamedBench) {
  const attached = name === 'docker by exec';
  return {
    memory: (limits.memoryMiB + limits.diskMiB + 16 + (attached ? 64 : 0)) * MIB,
    processes: limits.processes + 3 + (attached ? 16 : 0),
    cpus: 1,
  };
}

/** Pid 1 of the sandbox, as the host sees it. */
export async function pidOf(bench: NamedBench, id: string): Promise<number> {
  const folder = folderOf(bench.stateDir, id);
  if (bench.kind === 'bubblewrap') return innerProcess(folder)?.pid ?? 0;
  const container = (bench.provider as unknown as DockerProvider).engine.docker.getContainer(
    readRecord(folder)?.name ?? '',
  );
  return (await container.inspect()).State.Pid;
}

function groupFile(pid: number, controller: string, v1: string, v2: string): string {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const line = lines.find(([, names = '']) => names.split(',').includes(controller));
  const path = (line ?? lines.find(([n]) => n === '0'))?.slice(2).join(':') ?? '/';
  return readFileSync(
    line === undefined ? join('/sys/fs/cgroup', path, v2) : join('/sys/fs/cgroup', controller, path, v1),
    'utf8',
  ).trim();
}

/** The kernel's limits on the sandbox (bytes, processes, processors), and its peak memory. */
export async function groupOf(bench: NamedBench, id: string) {
  const pid = await pidOf(bench, id);
  const memory = (v1: string, v2: string): number => Number(groupFile(pid, 'memory', v1, v2));
  const quota = groupFile(pid, 'cpu', 'cpu.cfs_quota_us', 'cpu.max').split(' ');
  const period = quota[1] ?? groupFile(pid, 'cpu', 'cpu.cfs_period_us', 'cpu.max');
  return {
    memory: memory('memory.limit_in_bytes', 'memory.max'),
    memoryPeak: memory('memory.max_usage_in_bytes', 'memory.peak'),
    processes: Number(groupFile(pid, 'pids', 'pids.max', 'pids.max')),
    processesNow: Number(groupFile(pid, 'pids', 'pids.current', 'pids.current')),
    cpus: Number(quota[0]) / Number(period),
  };
}

/**
 * Limit and peak of the memory of its group's sockets, in bytes. If the kernel does not count sockets alone: of all
 * memory.
 */
export function socketMemoryOf(pid: number): { readonly limit: number; readonly peak: number } {
  const bytes = (v1: string, v2: string): number =>
    Number(groupFile(pid, 'memory', `memory.kmem.tcp.${v1}`, `memory.${v2}`));
  return { limit: bytes('limit_in_bytes', 'max'), peak: bytes('max_usage_in_bytes', 'peak') };
}

/** Peak resident memory of a process, in bytes. */
export function peakOf(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB/mu.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

let made = 0;
const bystanders = new Map<NamedBench, Promise<Sandbox>>();

/** Another rollout on this host: it has a file and a running process. */
async function makeBystander(bench: NamedBench): Promise<Sandbox> {
  const sandbox = await bench.provider.create(specOf('bystander'));
  await sh(sandbox, 'echo mine > /workspace/file; export KEPT=kept; sleep 1000 & sleeper=$!');
  return sandbox;
}

async function expectAnswer(sandbox: Sandbox, command: string, output: string): Promise<void> {
  const answer = await sh(sandbox, command);
  if (answer.output !== output) throw new Error(`${sandbox.id} does not answer as it did: ${answer.output}`);
}

/**
 * Runs `body` in a new sandbox. Afterwards the sandbox must answer, and the other rollout on the host must be
 * unaffected.
 */
export async function underAttack(
  bench: NamedBench,
  body: (sandbox: Sandbox, id: string) => Promise<void>,
): Promise<void> {
  const beside = bystanders.get(bench) ?? makeBystander(bench);
  bystanders.set(bench, beside);
  const bystander = await beside;
  made += 1;
  const id = `attacked/${made}`;
  const sandbox = await bench.provider.create(specOf(id, { limits: SMALL }));
  await body(sandbox, id);
  sandbox.close();
  const after = await bench.provider.connect(id);
  await sh(after, 'true');
  await expectAnswer(after, 'echo alive', 'alive\n');
  after.close();
  await expectAnswer(
    bystander,
    'cat /workspace/file; echo $KEPT; kill -0 $sleeper; ls -A /workspace /tmp | wc -w',
    'mine\nkept\n4\n',
  );
  await bench.provider.destroy(id);
}

/** Expects that the next rollout on this host gets a normal sandbox. */
export async function expectFresh(bench: NamedBench): Promise<void> {
  const next = await bench.provider.create(specOf('next'));
  await expectAnswer(
    next,
    'ls -A /workspace /tmp /dev/shm; cat /proc/self/oom_score_adj; echo next',
    '/dev/shm:\n\n/tmp:\nhome\n\n/workspace:\n1000\nnext\n',
  );
  await bench.provider.destroy('next');
}

/** Writes a Python program and runs it. */
export const python = (program: string, how = ''): string =>
  `cat > /tmp/attack.py <<'END_OF_PROGRAM'\n${program}\nEND_OF_PROGRAM\n${how} python3 /tmp/attack.py`;
