/**
 * A handle on a workflow, which runs without it: the handle has no state, so any number of programs can have one. If
 * the connection is to a folder's stack, all methods throw `WrongStack` when another stack's server answers.
 */

import { type Client, type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import type { OpenedSweep, SweepResult, SweepStatus } from '../protocol/eval.ts';
import type { Reconfiguration } from '../workflows/training/reconfigure.ts';
import { naming } from '../connection/stack-identity.ts';
import { whileAway } from './while-away.ts';

/** A query waits for a worker, which may be away. In milliseconds. */
const ANSWERS_WITHIN_MS = 30_000;

const REMEDY = 'start it, or see the names of this stack with: npx longhaul runs --all';

export class DurableHandle<Status, Result> {
  readonly workflowId: string;
  protected readonly handle: WorkflowHandle;
  readonly #client: Client;

  constructor(client: Client, workflowId: string) {
    this.workflowId = workflowId;
    this.#client = client;
    this.handle = client.workflow.getHandle(workflowId);
  }

  /** Errors: `WorkflowNotFoundError`, with its remedy, if there is none; `ServiceError` after `withinMs`. */
  status(withinMs: number = ANSWERS_WITHIN_MS): Promise<Status> {
    return this.found(() =>
      this.#client.withDeadline(Date.now() + withinMs, () => this.handle.query<Status>('status')),
    );
  }

  async isRunning(): Promise<boolean> {
    return (await this.found(() => this.handle.describe())).status.name === 'RUNNING';
  }

  pause(): Promise<void> {
    return this.found(() => this.handle.signal('pause'));
  }

  resume(): Promise<void> {
    return this.found(() => this.handle.signal('resume'));
  }

  /** Asks it to end; every sandbox is released first. */
  async cancel(): Promise<void> {
    await this.found(() => this.handle.cancel());
  }

  /**
   * Waits for the end, even while the server is away (for half an hour).
   * Errors: `WorkflowFailedError` with the workflow's failure as its cause.
   */
  result(): Promise<Result> {
    return whileAway(() => this.found(() => this.handle.result() as Promise<Result>));
  }

  /** The server's own error is kept, since callers know it by its class; its message says what to do. */
  protected async found<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await naming(work);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError) || error.message.includes(REMEDY)) throw error;
      error.message = `${this.workflowId}: ${error.message}; ${REMEDY}`;
      throw error;
    }
  }
}

/** A handle on one eval: its results are in the store and in its folder. */
export class EvalHandle extends DurableHandle<SweepStatus, SweepResult> {
  readonly eval: string;

  constructor(client: Client, id: string) {
    super(client, `eval/${id}`);
    this.eval = id;
  }

  /**
   * Changes budgets of a live eval, and records the change. Returns the opened eval as it is then. Waits, until
   * `signal` fires, for an eval that has not started or whose orchestrator is away.
   */
  configure(change: Reconfiguration, signal?: AbortSignal): Promise<OpenedSweep> {
    const ask = () => this.handle.executeUpdate<OpenedSweep, [Reconfiguration]>('configure', { args: [change] });
    return this.found(() => (signal ? this.handle.client.withAbortSignal(signal, ask) : ask()));
  }
}
