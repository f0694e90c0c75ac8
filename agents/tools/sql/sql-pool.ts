/**
 * Runs SQL queries in processes of their own, which are killed at the time limit: nothing in JavaScript interrupts a
 * query of SQLite. A few processes serve all queries of this worker, each one query at a time, in the order of asking.
 */

import { availableParallelism } from 'node:os';
import { type Ended, type Job, QueryProcess } from './query-process.ts';
import { type SqlOutcome, SqlProcessLost, type SqlQuery } from './sql-request.ts';

const MOST_PROCESSES = Math.min(4, Math.max(2, availableParallelism()));
/** A query is given to so many processes, and so many starts may fail in a row. */
const MOST_LOST = 2;
const MOST_FAILED_STARTS = 3;
const CONTROL = 'SELECT count(*) FROM sqlite_master';

export class SqlPool {
  readonly #most: number;
  readonly #lost = new WeakMap<Job, number>();
  #waiting: Job[] = [];
  #processes: QueryProcess[] = [];
  #failedStarts = 0;

  /** `most`: processes at the same time. */
  constructor(most = MOST_PROCESSES) {
    this.#most = most;
  }

  /** Ids of the processes that run a query. */
  get busy(): readonly number[] {
    return this.#processes.flatMap(({ pid, job }) => (pid === undefined || job === undefined ? [] : [pid]));
  }

  /**
   * What the query does wrong is an outcome. Errors: `SqlDatabaseUnavailable`; `SqlProcessLost` if two processes were
   * lost with it, and not by its own fault; the signal's reason.
   */
  async run(query: SqlQuery, signal?: AbortSignal): Promise<SqlOutcome> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<SqlOutcome>();
    const job: Job = { query, resolve, reject };
    const abort = (): void => this.#drop(job, signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      this.#waiting.push(job);
      this.#next();
      return await promise;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /**
   * Runs a policy's query. One that loses its processes, as by memory, may do that on purpose, to keep itself from
   * being graded: so a control on the same database runs next. If it works, the query is at fault. Errors: those of
   * `run`.
   */
  async runOfPolicy(query: SqlQuery, signal?: AbortSignal): Promise<SqlOutcome> {
    try {
      return await this.run(query, signal);
    } catch (error) {
      if (!(error instanceof SqlProcessLost && error.hasRun)) throw error;
      const { database, limits } = query;
      const control = await this.run({ database, limits, sql: CONTROL }, signal).catch(() => undefined);
      signal?.throwIfAborted();
      if (control?.kind !== 'rows') throw error;
      return { kind: 'error', message: error.message };
    }
  }

  /** Ends the processes. Queries that have not ended are rejected. */
  close(): void {
    const jobs = [...this.#waiting.splice(0), ...this.#processes.map(({ job }) => job)];
    for (const job of jobs) if (job !== undefined) this.#drop(job, new SqlProcessLost('the pool was closed', false));
    const processes = this.#processes;
    for (const one of processes) one.end('the pool was closed');
  }

  #drop(job: Job, reason: unknown): void {
    job.reject(reason);
    this.#waiting = this.#waiting.filter((one) => one !== job);
    this.#lost.set(job, MOST_LOST);
    this.#processes.find((one) => one.job === job)?.end('its query was dropped');
  }

  #next(): void {
    for (const one of this.#processes.filter(({ state }) => state === 'free')) {
      const job = this.#waiting.shift();
      if (job === undefined) return;
      one.give(job);
    }
    const starting = this.#processes.filter(({ state }) => state === 'starting').length;
    if (this.#waiting.length > starting && this.#processes.length < this.#most) this.#start();
  }

  #start(): void {
    const one: QueryProcess = new QueryProcess(
      () => {
        this.#failedStarts = 0;
        this.#next();
      },
      (ended) => {
        this.#processes = this.#processes.filter((other) => other !== one);
        this.#ended(ended);
      },
    );
    this.#processes.push(one);
  }

  #ended({ job, reason, isOwnFault, isStart }: Ended): void {
    if (job !== undefined) {
      const lost = (this.#lost.get(job) ?? 0) + 1;
      this.#lost.set(job, lost);
      if (lost < MOST_LOST) this.#waiting.unshift(job);
      else if (isOwnFault) job.resolve({ kind: 'error', message: `the query ended its process (${reason})` });
      else job.reject(new SqlProcessLost(reason, true));
    }
    if (isStart) this.#failedStarts += 1;
    if (this.#failedStarts >= MOST_FAILED_STARTS) {
      this.#failedStarts = 0;
      for (const one of this.#waiting.splice(0)) one.reject(new SqlProcessLost(`no process starts: ${reason}`, false));
    }
    this.#next();
  }
}

let shared: SqlPool | undefined;

/** Runs a query in this worker's processes. Errors: those of `SqlPool.run`. */
export function runSql(query: SqlQuery, signal?: AbortSignal): Promise<SqlOutcome> {
  shared ??= new SqlPool();
  return shared.run(query, signal);
}

/** As `runSql`, for what a policy wrote. Errors: those of `SqlPool.runOfPolicy`. */
export function runPolicySql(query: SqlQuery, signal?: AbortSignal): Promise<SqlOutcome> {
  shared ??= new SqlPool();
  return shared.runOfPolicy(query, signal);
}
