/**
 * One process that is kept alive: started or adopted, watched until it dies, restarted after a delay. Exactly one
 * process runs under its name, and after `stop` none does.
 */

import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, type ProcessIdentity, startTimeOf } from '#setup/process-identity.mjs';
import { openLog } from './log-files.ts';
import type { ProcessSpec } from './process-spec.ts';
import { stopProcess } from './stop-process.ts';
import type { ProcessRecord, ProcessState } from '../../connection/stack-state.ts';

const READY_POLL_MS = 100;
const ADOPTED_POLL_MS = 300;

/** The identity of a process that could not be started: no process has it. */
const NOBODY: ProcessIdentity = { pid: 0, startTime: '' };

/** Writes a line of the supervisor's log; default level: `info`. */
export type Say = (line: string, level?: 'info' | 'warn') => void;

interface Running {
  readonly identity: ProcessIdentity;
  readonly startedAt: number;
  /** Resolves with a description of how the process ended. */
  readonly ended: Promise<string>;
}

export class ManagedProcess {
  readonly spec: ProcessSpec;
  readonly #onChange: () => void;
  readonly #say: Say;
  #running: Running | undefined;
  #state: ProcessState = 'stopped';
  #since = new Date().toISOString();
  #restarts = 0;
  #quickDeaths = 0;
  #failedStarts = 0;
  #stopping = new AbortController();
  #kept: Promise<void> = Promise.resolve();

  constructor(spec: ProcessSpec, onChange: () => void, say: Say) {
    this.spec = spec;
    this.#onChange = onChange;
    this.#say = say;
  }

  get record(): ProcessRecord {
    const { name, log, digest, note } = this.spec;
    return {
      name,
      ...(this.#running === undefined ? {} : { process: this.#running.identity }),
      state: this.#state,
      restarts: this.#restarts,
      failedStarts: this.#failedStarts,
      since: this.#since,
      log,
      digest,
      ...(note === undefined ? {} : { note }),
    };
  }

  /** Starts the process, or adopts that of `previous` if it still runs with the same digest; then keeps it alive. */
  start(previous?: ProcessRecord): void {
    const found = previous?.process;
    const adoptable = found !== undefined && previous?.digest === this.spec.digest && isAlive(found);
    this.#restarts = previous?.restarts ?? 0;
    this.#running = adoptable ? this.#adopt(found) : this.#spawn();
    this.#kept = this.#keep();
  }

  /** Stops the process: SIGTERM, and SIGKILL if it still runs after `deadlineMs`. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping.abort();
    if (this.#running !== undefined) {
      this.#become('stopping');
      const killed = await stopProcess(this.#running.identity, deadlineMs);
      if (killed) this.#say(`${this.spec.name} did not stop within ${deadlineMs / 1000} s and was killed`, 'warn');
    }
    await this.#kept;
    this.#running = undefined;
    this.#become('stopped');
  }

  async #keep(): Promise<void> {
    while (this.#running !== undefined) {
      const current = this.#running;
      const becameReady = await this.#watch(current);
      if (this.#stopping.signal.aborted) return;
      const delay = this.#noteDeath(Date.now() - current.startedAt, becameReady, await current.ended);
      await sleep(delay, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      if (this.#stopping.signal.aborted) return;
      this.#restarts += 1;
      this.#running = this.#spawn();
    }
  }

  /** Waits until `running` has ended; returns true if it was ready before. */
  async #watch(running: Running): Promise<boolean> {
    let alive = true;
    const ended = running.ended.then(() => {
      alive = false;
    });
    while (alive && !this.#stopping.signal.aborted) {
      if (await this.spec.isReady(running.identity.pid)) {
        this.#failedStarts = 0;
        if (alive && !this.#stopping.signal.aborted) {
          this.#become('ready');
          this.#say(`${this.spec.name} is ready (pid ${running.identity.pid})`);
        }
        await ended;
        return true;
      }
      await Promise.race([ended, sleep(READY_POLL_MS)]);
    }
    await ended;
    return false;
  }

  #noteDeath(livedMs: number, wasReady: boolean, how: string): number {
    this.#quickDeaths = nextQuickDeaths(this.#quickDeaths, livedMs);
    if (!wasReady) this.#failedStarts += 1;
    const delay = restartDelayMs(this.#quickDeaths);
    const pid = this.#running?.identity.pid;
    this.#running = undefined;
    this.#become('backing-off');
    const end = pid === NOBODY.pid ? 'could not be started' : `(pid ${pid}) died`;
    this.#say(`${this.spec.name} ${end} (${how}); restart in ${delay / 1000} s; its log: ${this.spec.log}`, 'warn');
    return delay;
  }

  #spawn(): Running {
    const running = { ...this.#launched(), startedAt: Date.now() };
    this.#running = running;
    this.#become('starting');
    return running;
  }

  /** An error at launch, such as too little memory, is a failed start: it is retried like any other. */
  #launched(): Omit<Running, 'startedAt'> {
    try {
      return this.#launch();
    } catch (error) {
      return { identity: NOBODY, ended: Promise.resolve(error instanceof Error ? error.message : String(error)) };
    }
  }

  #launch(): Omit<Running, 'startedAt'> {
    const { command, args, env, log } = this.spec;
    this.spec.beforeStart();
    const descriptor = openLog(log);
    // Its own process group and its own log: neither Ctrl-C nor the supervisor's death ends it.
    const child = spawn(command, args, { env, detached: true, stdio: ['ignore', descriptor, descriptor] });
    closeSync(descriptor);
    const ended = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
    const pid = child.pid ?? 0;
    return { identity: { pid, startTime: startTimeOf(pid) ?? '' }, ended };
  }

  #adopt(identity: ProcessIdentity): Running {
    const running = { identity, startedAt: Date.now(), ended: endOf(identity) };
    this.#running = running;
    this.#become('starting');
    this.#say(`${this.spec.name} (pid ${identity.pid}) still runs; the supervisor keeps it`);
    return running;
  }

  #become(state: ProcessState): void {
    if (state !== this.#state) this.#since = new Date().toISOString();
    this.#state = state;
    this.#onChange();
  }
}

/** The end of another process's child is not signalled to us: poll until it is gone. */
async function endOf(identity: ProcessIdentity): Promise<string> {
  while (isAlive(identity)) await sleep(ADOPTED_POLL_MS);
  return 'reason unknown, because another process had started it';
}

/** Delays before restarts, by the number of quick deaths in a row. */
const DELAYS_MS = [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000] as const;

/** After a life of this length, a death counts as a new problem: earlier ones no longer count. */
export const STABLE_MS = 60_000;

/** `quickDeaths`: the number of times in a row that it died within `STABLE_MS`, this death included. */
export function restartDelayMs(quickDeaths: number): number {
  const index = Math.min(Math.max(quickDeaths, 1), DELAYS_MS.length) - 1;
  return DELAYS_MS[index] ?? 30_000;
}

export function nextQuickDeaths(quickDeaths: number, livedMs: number): number {
  return livedMs >= STABLE_MS ? 1 : quickDeaths + 1;
}
