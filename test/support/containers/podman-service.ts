/**
 * Podman's service behind Docker's API, for tests: one of our own, as root, with a storage of its own. It and its
 * containers live in a mount namespace of their own, so that no mount of theirs outlives the run.
 */

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type Docker from 'dockerode';
import { which } from '#setup/command.mjs';
import { isAlive, startTimeOf } from '#setup/process-identity.mjs';
import { withLock } from '#setup/process-lock.mjs';
import { daemonAt, type DaemonForTests, FOLDER_VARIABLE } from './docker-daemon.ts';

const UP_WITHIN_MS = 60_000;
/** No systemd is there to ask for groups and for a log of events, and maybe no right to raise a limit, as Podman would by itself. */
const CONFIGURATION = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
`;
/** crun refuses version 1 of control groups where version 2 is mounted beside it. */
const START = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"';

/** Why the service cannot be had here; `undefined` where it can. */
export function lacksPodman(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can start its service here';
  return which('podman', process.env) === undefined
    ? 'it is not installed (on Debian and Ubuntu: apt install podman crun)'
    : undefined;
}

async function answers(docker: Docker): Promise<boolean> {
  return await docker.ping().then(
    () => true,
    () => false,
  );
}

function start(folder: string): void {
  const configuration = join(folder, 'containers.conf');
  writeFileSync(configuration, CONFIGURATION);
  const log = openSync(join(folder, 'log'), 'a');
  const podman = [
    'podman',
    '--root',
    join(folder, 'root'),
    '--runroot',
    join(folder, 'run'),
    'system',
    'service',
    '--time=0',
    `unix://${join(folder, 'podman.sock')}`,
  ];
  const args = ['--mount', '--propagation', 'private', 'sh', '-c', START, 'sh', ...podman];
  // Its monitors leave a file `oom` where they were started, when memory of a container ran out.
  const service = spawn('unshare', args, {
    cwd: folder,
    detached: true,
    stdio: ['ignore', log, log],
    env: { ...process.env, CONTAINERS_CONF: configuration },
  });
  service.unref();
  const { pid } = service;
  if (pid !== undefined) writeFileSync(join(folder, 'pid'), String(pid));
}

const serviceIn = (folder: string): DaemonForTests => daemonAt(`unix://${join(folder, 'podman.sock')}`);

/** Started once for all test files of a run, by whichever needs it first. */
export async function podmanForTests(): Promise<DaemonForTests> {
  const given = process.env[FOLDER_VARIABLE];
  if (given === undefined)
    throw new Error('no set-up of a test run is there to stop a service of Podman that is started');
  const folder = join(given, 'podman');
  mkdirSync(folder, { recursive: true });
  const own = serviceIn(folder);
  return await withLock(
    join(folder, 'lock'),
    () => undefined,
    async () => {
      if (await answers(own.docker)) return own;
      start(folder);
      for (const deadline = Date.now() + UP_WITHIN_MS; !(await answers(own.docker)); await sleep(50))
        if (Date.now() > deadline)
          throw new Error(
            `Podman's service of the tests does not answer: ${readFileSync(join(folder, 'log'), 'utf8').slice(-2000)}`,
          );
      return own;
    },
  );
}

/** Of each exec a monitor stays for five minutes, and would then make its storage anew. */
function endMonitors(folder: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/u.test(name))) {
    try {
      const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0');
      if (basename(program) === 'conmon' && args.some((arg) => arg.startsWith(`${folder}/`)))
        process.kill(Number(pid), 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
}

/** Its containers first: they need no service to live on. */
export async function stopOwnPodman(given: string): Promise<void> {
  const folder = join(given, 'podman');
  if (!existsSync(join(folder, 'pid'))) return;
  const { docker } = serviceIn(folder);
  const left = await docker.listContainers({ all: true }).catch(() => []);
  for (const { Id } of left)
    await docker
      .getContainer(Id)
      .remove({ force: true })
      .catch(() => undefined);
  const pid = Number(readFileSync(join(folder, 'pid'), 'utf8'));
  const startTime = startTimeOf(pid);
  if (startTime !== undefined) {
    process.kill(pid, 'SIGTERM');
    for (const deadline = Date.now() + 30_000; isAlive({ pid, startTime }) && Date.now() < deadline;) await sleep(50);
  }
  endMonitors(folder);
}
