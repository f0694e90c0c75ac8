/**
 * The command's own Docker daemon, for stacks with Docker sandboxes if no daemon answers: only this one may be killed.
 * Like most daemons, it ends its containers with it.
 */

import type Docker from 'dockerode';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { which } from '#setup/command.mjs';
import { dockerAddress } from '../sandboxes/docker/address.ts';
import { dockerClient } from '../sandboxes/docker/client.ts';
import { within } from '../sandboxes/docker/engine.ts';
import { identify, isAlive, killProcess } from '../sandboxes/supervised/process-identity.ts';
import { logTail } from '../stack/processes/log-files.ts';
import { Unreachable } from '../client/errors.ts';

const UP_WITHIN_MS = 60_000;
const STOPS_WITHIN_MS = 30_000;
const ANSWERS_WITHIN_MS = 5_000;
const POLL_MS = 50;

/** True if the daemon answers in time: one that only accepts connections does not. */
export const answers = (docker: Docker, ms = ANSWERS_WITHIN_MS): Promise<boolean> =>
  within('ping', docker.ping(), ms).then(
    () => true,
    () => false,
  );

/** Mount points below `dir`, the last mount first. In `mountinfo`, spaces and the like are octal escapes. */
export function mountsBelow(dir: string, mountinfo: string): string[] {
  const read = (point: string) =>
    point.replaceAll(/\\(\d{3})/gu, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
  const points = mountinfo
    .split('\n')
    .flatMap((line) => line.split(' ')[4] ?? [])
    .map(read);
  return points.filter((point) => point.startsWith(`${dir}/`)).toReversed();
}

/** Unmounts what killed daemons left mounted below `dir`: each later daemon mounted over it. */
function unmountAll(dir: string): void {
  if (!existsSync(dir)) return;
  for (const path of mountsBelow(realpathSync(dir), readFileSync('/proc/self/mountinfo', 'utf8')))
    execFileSync('umount', ['--lazy', path]);
}

/** Ends the previous containerd: if it is dying or a zombie, a new daemon would take it for alive, and hang. */
async function endContainerd(pidFile: string): Promise<void> {
  const containerd = existsSync(pidFile) ? identify(Number(readFileSync(pidFile, 'utf8'))) : undefined;
  if (containerd !== undefined) killProcess(containerd);
  while (containerd !== undefined && isAlive(containerd)) await sleep(1);
  rmSync(pidFile, { force: true });
}

export class OwnDocker {
  readonly docker: Docker;
  readonly host: string;
  readonly #dir: string;
  readonly #program: string;
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | undefined;

  private constructor(dir: string, program: string, env: NodeJS.ProcessEnv) {
    this.#dir = dir;
    this.#program = program;
    this.#env = env;
    this.host = `unix://${join(dir, 'docker.sock')}`;
    this.docker = dockerClient({ DOCKER_HOST: this.host });
  }

  /** Starts a daemon in `dir`. Errors: `Unreachable` without its program or root rights, or if it does not start. */
  static async start(dir: string, given: NodeJS.ProcessEnv, upWithinMs = UP_WITHIN_MS): Promise<OwnDocker> {
    const env = { ...given, PATH: `${given['PATH'] ?? ''}:/usr/sbin:/sbin` };
    const program = which('dockerd', env);
    if (program === undefined || process.getuid?.() !== 0)
      throw new Unreachable('Docker', 'Start its daemon, or run this command as root where dockerd is installed.');
    const own = new OwnDocker(dir, program, env);
    mkdirSync(dir, { recursive: true });
    try {
      await own.startAgain(Date.now() + upWithinMs);
      return own;
    } catch (error) {
      await own.stop();
      throw error;
    }
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Returns its pid when it answers. Errors: `Unreachable` if it does not by the deadline, or has ended. */
  async startAgain(deadline: number): Promise<number> {
    rmSync(join(this.#dir, 'pid'), { force: true });
    await endContainerd(join(this.#dir, 'exec', 'containerd', 'containerd.pid'));
    const path = join(this.#dir, 'log');
    const log = openSync(path, 'a');
    // Sandboxes have no network, so the daemon needs neither a bridge nor firewall rules.
    const args = ['--iptables=false', '--ip6tables=false', '--bridge=none', '--host', this.host];
    const folders = [
      '--data-root',
      join(this.#dir, 'data'),
      '--exec-root',
      join(this.#dir, 'exec'),
      '--pidfile',
      join(this.#dir, 'pid'),
    ];
    const child = spawn(this.#program, [...args, ...folders], { stdio: ['ignore', log, log], env: this.#env });
    this.#child = child;
    closeSync(log);
    let ended = '';
    child.once('error', (error) => (ended = error.message));
    child.once('exit', (code, signal) => (ended = signal ?? `exit code ${code}`));
    while (!(await answers(this.docker))) {
      const how = ended === '' ? 'does not answer' : `ended (${ended})`;
      if (ended !== '' || Date.now() > deadline)
        throw new Unreachable('The Docker daemon that this command starts', `Its log ends:\n${logTail(path)}`, { how });
      await sleep(POLL_MS);
    }
    return this.pid;
  }

  /** Stops the daemon with its containers, and removes its folder. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), STOPS_WITHIN_MS);
      await once(child, 'exit');
      clearTimeout(late);
    }
    unmountAll(this.#dir);
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/** Starts an own daemon; `undefined` if another one is configured or answers. Errors: those of `OwnDocker.start`. */
export async function ownDockerUnlessGiven(dir: string, env: NodeJS.ProcessEnv): Promise<OwnDocker | undefined> {
  if (dockerAddress(env).by !== undefined || (await answers(dockerClient(env)))) return undefined;
  return OwnDocker.start(dir, env);
}
