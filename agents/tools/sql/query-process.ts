/** One process of queries as the worker sees it: it starts, then runs one query after the other, and is killed. */

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type SqlAnswer, SqlDatabaseUnavailable, type SqlOutcome, type SqlQuery } from './sql-request.ts';

const IDLE_MS = 30_000;
/** Of the start, on a machine that is very busy. */
const START_MS = 60_000;
/** Of one temporary file of a query (a sort, a recursion), in blocks of 512 bytes: 1 GiB. */
const TEMPORARY_BLOCKS = 1 << 21;

/** Signals by which a process ends for what its query did: an assertion, memory that it did not get, a wild pointer. */
const OWN_FAULTS: readonly NodeJS.Signals[] = ['SIGABRT', 'SIGTRAP', 'SIGSEGV', 'SIGBUS', 'SIGILL', 'SIGFPE'];

/** A query, and who waits for it. */
export interface Job {
  readonly query: SqlQuery;
  readonly resolve: (outcome: SqlOutcome) => void;
  readonly reject: (error: unknown) => void;
}

/** How a process ended. */
export interface Ended {
  /** The job that it has not answered. */
  readonly job: Job | undefined;
  readonly reason: string;
  /** True if what the query did ended it. */
  readonly isOwnFault: boolean;
  /** True if it ended before its first query. */
  readonly isStart: boolean;
}

/** No secret of the worker is in the environment of a process that runs a policy's text. */
function environment(): NodeJS.ProcessEnv {
  const kept = ['PATH', 'TMPDIR', 'SQLITE_TMPDIR', 'LANG'].map((name) => [name, process.env[name]] as const);
  return Object.fromEntries(kept.filter(([, value]) => value !== undefined));
}

function start(): ChildProcess {
  // In the built package, both files are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const file = fileURLToPath(new URL(`./sql-process.${extension}`, import.meta.url));
  // A temporary file beyond the limit is then an error of the query, and no signal that ends the process.
  const limited = `trap '' XFSZ; ulimit -f ${TEMPORARY_BLOCKS}; exec "$0" "$@"`;
  return spawn('/bin/sh', ['-c', limited, process.execPath, file], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'advanced',
    env: environment(),
  });
}

type State = 'starting' | 'free' | 'busy' | 'ended';

export class QueryProcess {
  readonly #child = start();
  readonly #onFree: () => void;
  readonly #onEnd: (ended: Ended) => void;
  #state: State = 'starting';
  #job: Job | undefined;
  #timer: NodeJS.Timeout;

  constructor(onFree: () => void, onEnd: (ended: Ended) => void) {
    this.#onFree = onFree;
    this.#onEnd = onEnd;
    this.#timer = setTimeout(() => this.end('it did not start in time'), START_MS);
    this.#child.on('message', (message: SqlAnswer | 'ready') => this.#answered(message));
    this.#child.on('error', ({ message }) => this.end(message));
    this.#child.on('exit', (code, signal) =>
      this.end(signal ?? `exit code ${code}`, signal !== null && OWN_FAULTS.includes(signal)),
    );
  }

  get state(): State {
    return this.#state;
  }

  get job(): Job | undefined {
    return this.#job;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Only for a free process. */
  give(job: Job): void {
    this.#job = job;
    this.#become('busy', job.query.limits.seconds * 1000, () => {
      this.#job = undefined;
      this.end('its query took too long');
      job.resolve({ kind: 'timeout' });
    });
    this.#child.send(job.query, (error) => {
      if (error !== null) this.end(error.message);
    });
  }

  /** Kills the process, and reports its job as not answered. */
  end(reason: string, isOwnFault = false): void {
    if (this.#state === 'ended') return;
    const ended = { job: this.#job, reason, isOwnFault, isStart: this.#state === 'starting' };
    clearTimeout(this.#timer);
    this.#state = 'ended';
    this.#job = undefined;
    this.#child.kill('SIGKILL');
    this.#onEnd(ended);
  }

  #become(state: 'free' | 'busy', ms: number, then: () => void): void {
    clearTimeout(this.#timer);
    this.#state = state;
    this.#timer = setTimeout(then, ms);
    // A process that waits for a query does not keep the worker alive.
    const keep = state === 'free' ? 'unref' : 'ref';
    this.#timer[keep]();
    this.#child[keep]();
    this.#child.channel?.[keep]();
  }

  #answered(message: SqlAnswer | 'ready'): void {
    if (this.#state === 'ended') return;
    const job = this.#job;
    this.#job = undefined;
    // A process whose query took too much memory ends itself.
    const ends = message !== 'ready' && 'outcome' in message && message.outcome.kind === 'memory';
    if (ends) this.end('its query took too much memory');
    else this.#become('free', IDLE_MS, () => this.end('it was idle'));
    if (message !== 'ready') {
      if ('unavailable' in message) job?.reject(new SqlDatabaseUnavailable(message.unavailable));
      else job?.resolve(message.outcome);
    }
    if (!ends) this.#onFree();
  }
}
