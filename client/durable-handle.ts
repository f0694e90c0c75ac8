/**
 * A handle on a workflow that goes on by itself: it holds no state of its own, so any number of programs can hold one.
 * Where the connection belongs to a folder's stack, all of it throw `WrongStack` when another stack's server answers.
 */

import type { Client, WorkflowHandle } from '@temporalio/client';
import type { SweepResult, SweepStatus } from '../protocol/eval.ts';
import { naming } from '../connection/stack-identity.ts';
import { whileAway } from './while-away.ts';

/** A query waits for a worker, which may be away; milliseconds. */
const ANSWERS_WITHIN_MS = 30_000;

export class DurableHandle<Status, Result> {
  readonly workflowId: string;
  protected readonly handle: WorkflowHandle;
  readonly #client: Client;

  constructor(client: Client, workflowId: string) {
    this.workflowId = workflowId;
    this.#client = client;
    this.handle = client.workflow.getHandle(workflowId);
  }

  /** Errors: `WorkflowNotFoundError` when there is no such workflow; `ServiceError` when nobody answers within `withinMs`. */
  status(withinMs: number = ANSWERS_WITHIN_MS): Promise<Status> {
    return naming(() => this.#client.withDeadline(Date.now() + withinMs, () => this.handle.query<Status>('status')));
  }

  async isRunning(): Promise<boolean> {
    return (await naming(() => this.handle.describe())).status.name === 'RUNNING';
  }

  pause(): Promise<void> {
    return naming(() => this.handle.signal('pause'));
  }

  resume(): Promise<void> {
    return naming(() => this.handle.signal('resume'));
  }

  /** Asks it to end; every sandbox is released first. */
  async cancel(): Promise<void> {
    await naming(() => this.handle.cancel());
  }

  /**
   * Waits for the end, also while the server is away (for half an hour).
   * Errors: `WorkflowFailedError` with the workflow's failure as its cause.
   */
  result(): Promise<Result> {
    return whileAway(() => this.handle.result() as Promise<Result>);
  }
}

/** On one eval: its results are in the store and in its folder. */
export class EvalHandle extends DurableHandle<SweepStatus, SweepResult> {
  readonly eval: string;

  constructor(client: Client, id: string) {
    super(client, `eval/${id}`);
    this.eval = id;
  }
}
