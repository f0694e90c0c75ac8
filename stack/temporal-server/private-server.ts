/** A Temporal server with its own folder, for benches and tests; it ends with their process. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { serverProgram } from '../stack-plan.ts';
import { checkCluster } from './cluster-health.ts';
import { choosePort, isPortFree } from './free-port.ts';
import { serverArguments } from './server-arguments.ts';
import { serverEnvironment } from './server-environment.ts';

export interface PrivateServer {
  readonly address: string;
  readonly pid: number;
  stop(): Promise<void>;
}

const START_WITHIN_MS = 60_000;
/** Attempts to start: a port may be taken after its choice, also by the server, which picks some ports itself. */
const TRIES = 4;
const PORT_TAKEN = /address already in use/;

async function untilAnswers(address: string, child: ChildProcess, log: string): Promise<void> {
  const deadline = Date.now() + START_WITHIN_MS;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`The Temporal server ended with code ${child.exitCode}; see ${log}`);
    try {
      await checkCluster({ address }, 'default', 1000);
      // If ours has ended, the server that answers is another one.
      if (child.exitCode === null) return;
    } catch (error) {
      if (Date.now() > deadline) throw new Error(`The Temporal server does not answer; see ${log}`, { cause: error });
      await sleep(100);
    }
  }
}

const logIn = (dir: string): string => join(dir, 'temporal.log');
const logged = (dir: string): string => (existsSync(logIn(dir)) ? readFileSync(logIn(dir), 'utf8') : '');

async function startAt(port: number, dir: string, more: readonly string[]): Promise<PrivateServer> {
  const log = logIn(dir);
  const descriptor = openSync(log, 'a');
  const args = serverArguments({ port, database: join(dir, 'temporal.db'), namespace: 'default' });
  const child = spawn(serverProgram(process.env), [...args, ...more], {
    env: { ...process.env, ...serverEnvironment(process.env) },
    stdio: ['ignore', descriptor, descriptor],
  });
  closeSync(descriptor);
  const end = () => void child.kill('SIGKILL');
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
  const address = `127.0.0.1:${port}`;
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await once(child, 'exit');
    clearTimeout(late);
  };
  try {
    await untilAnswers(address, child, log);
  } catch (error) {
    await stop();
    throw error;
  }
  return { address, pid: child.pid ?? 0, stop };
}

/**
 * Starts a server with its database in `dir` and the settings of the stack's server; `more`: further arguments.
 * `choose`: for tests. Errors: `Unreachable` without the program; an `Error` with the log's path if it does not start.
 */
export async function startPrivateServer(
  dir: string,
  more: readonly string[] = [],
  choose: () => Promise<number> = () => choosePort([]),
): Promise<PrivateServer> {
  mkdirSync(dir, { recursive: true });
  for (let left = TRIES; ; left -= 1) {
    const port = await choose();
    const before = logged(dir).length;
    try {
      return await startAt(port, dir, more);
    } catch (error) {
      // The process that took the port may have ended already: the log shows it then.
      const wasTaken = PORT_TAKEN.test(logged(dir).slice(before)) || !(await isPortFree(port));
      if (left <= 1 || !wasTaken) throw error;
    }
  }
}
