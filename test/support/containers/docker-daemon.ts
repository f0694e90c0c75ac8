/**
 * A Docker daemon for tests: the one that answers on this machine, else one of our own, started once for all test
 * files by whichever needs it first and stopped when the run ends (`global-setup.ts`).
 */

import { spawn } from 'node:child_process';
import { existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type Docker from 'dockerode';
import { which } from '#setup/command.mjs';
import { isAlive, startTimeOf } from '#setup/process-identity.mjs';
import { withLock } from '#setup/process-lock.mjs';
import { dockerAddress } from '../../../sandboxes/docker/address.ts';
import { dockerClient } from '../../../sandboxes/docker/client.ts';

export const FOLDER_VARIABLE = 'LONGHAUL_TEST_DOCKER';
const UP_WITHIN_MS = 60_000;

/** A daemon, and the `DOCKER_HOST` by which other processes reach it. */
export interface DaemonForTests {
  readonly docker: Docker;
  readonly host: string;
}

export const daemonAt = (host: string): DaemonForTests => ({ docker: dockerClient({ DOCKER_HOST: host }), host });

async function answers(docker: Docker): Promise<boolean> {
  return await docker.ping().then(
    () => true,
    () => false,
  );
}

function start(folder: string): number {
  if (which('dockerd', { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin` }) === undefined)
    throw new Error(
      'these tests need Docker: start its daemon, or install one (on Debian and Ubuntu: apt install docker.io)',
    );
  if (process.getuid?.() !== 0)
    throw new Error('these tests need a Docker daemon that answers; only root can start one here');
  const log = openSync(join(folder, 'log'), 'a');
  // Sandboxes have no network, so the daemon needs neither a bridge nor rules of the firewall.
  const args = [
    '--iptables=false',
    '--ip6tables=false',
    '--bridge=none',
    '--host',
    `unix://${join(folder, 'docker.sock')}`,
  ];
  const folders = [
    '--data-root',
    join(folder, 'data'),
    '--exec-root',
    join(folder, 'exec'),
    '--pidfile',
    join(folder, 'pid'),
  ];
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin` };
  const daemon = spawn('dockerd', [...args, ...folders], { detached: true, stdio: ['ignore', log, log], env });
  daemon.unref();
  return daemon.pid ?? 0;
}

async function ownDaemon(folder: string): Promise<DaemonForTests> {
  const own = daemonAt(`unix://${join(folder, 'docker.sock')}`);
  return await withLock(
    join(folder, 'lock'),
    () => undefined,
    async () => {
      if (await answers(own.docker)) return own;
      start(folder);
      for (const deadline = Date.now() + UP_WITHIN_MS; !(await answers(own.docker)); await sleep(50))
        if (Date.now() > deadline)
          throw new Error(
            `the Docker daemon of the tests does not answer: ${readFileSync(join(folder, 'log'), 'utf8').slice(-2000)}`,
          );
      return own;
    },
  );
}

/** Errors: an `Error` that says what is missing. */
export async function dockerForTests(): Promise<DaemonForTests> {
  const given = daemonAt(dockerAddress(process.env).host);
  if (await answers(given.docker)) return given;
  const folder = process.env[FOLDER_VARIABLE];
  if (folder === undefined)
    throw new Error('no Docker daemon answers, and no set-up of a test run is there to stop one that is started');
  return await ownDaemon(folder);
}

/** Stops the daemon that tests have started in `folder`, if any, and removes what it left. */
export async function stopOwnDaemon(folder: string): Promise<void> {
  const path = join(folder, 'pid');
  if (existsSync(path)) {
    const pid = Number(readFileSync(path, 'utf8'));
    const start = startTimeOf(pid);
    if (start !== undefined) {
      process.kill(pid, 'SIGTERM');
      for (const deadline = Date.now() + 30_000; isAlive({ pid, startTime: start }) && Date.now() < deadline;)
        await sleep(50);
    }
  }
  rmSync(folder, { recursive: true, force: true });
}
