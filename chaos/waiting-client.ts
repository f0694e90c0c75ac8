/** The program that waits for the run, in its own process: killed and started again, it attaches to the same run. */

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageRoot } from '#setup/paths.mjs';

const POLL_MS = 20;

export class WaitingClient {
  readonly #args: readonly string[];
  readonly #dir: string;
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | undefined;
  #said = '';
  #killed = false;
  /** How often it ended with an error without being killed. */
  failures = 0;

  constructor(args: readonly string[], dir: string, env: NodeJS.ProcessEnv) {
    this.#args = args;
    this.#dir = dir;
    this.#env = env;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts the program, and restarts it until it succeeds; its stderr is in `client.log`. */
  start(): void {
    const log = openSync(join(this.#dir, 'client.log'), 'a');
    const program = join(packageRoot, 'bin', 'longhaul.mjs');
    const child = spawn(process.execPath, [program, ...this.#args], {
      cwd: this.#dir,
      env: this.#env,
      stdio: ['ignore', 'pipe', log],
    });
    closeSync(log);
    this.#child = child;
    this.#said = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = `${this.#said}${text}`.slice(-4096);
    });
    child.once('exit', (code) => {
      if (this.#child !== child || code === 0) return;
      if (!this.#killed) {
        this.failures += 1;
        this.start();
      }
    });
  }

  kill(): void {
    this.#killed = true;
    this.#child?.kill('SIGKILL');
  }

  /** Restarts the program after a kill. Returns its pid when it follows the run; `undefined` after `deadline`. */
  async startAgain(deadline: number): Promise<number | undefined> {
    this.#killed = false;
    this.start();
    while (Date.now() < deadline) {
      // The program prints the plan when it has attached to the run.
      if (/^run \S+ in /mu.test(this.#said)) return this.pid;
      await sleep(POLL_MS);
    }
    return undefined;
  }

  /** True if it ended by itself, with success, within `ms`. */
  async ended(ms: number): Promise<boolean> {
    for (const deadline = Date.now() + ms; Date.now() < deadline; await sleep(POLL_MS)) {
      if (this.#child?.exitCode === 0) return true;
    }
    return false;
  }
}
