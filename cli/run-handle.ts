/** A handle on one training run: it holds no state of its own, so any number of programs can follow the same run. */

import { type Client, type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Reconfiguration } from '../workflows/reconfigure.ts';
import type { TrainResult } from '../workflows/train.ts';
import type { PausePoint, RunConfig, StepRecord, TrainStatus } from '../workflows/types.ts';

const POLL_MS = 500;

export class RunHandle {
  readonly run: string;
  readonly #client: Client;

  constructor(client: Client, run: string) {
    this.#client = client;
    this.run = run;
  }

  get workflowId(): string {
    return `train/${this.run}`;
  }

  get #handle(): WorkflowHandle {
    return this.#client.workflow.getHandle(this.workflowId);
  }

  /** Errors: `WorkflowNotFoundError` when there is no such run. */
  status(): Promise<TrainStatus> {
    return this.#handle.query<TrainStatus>('status');
  }

  /** Every step from the next one on, as it ends; returns when the run is over. */
  async *steps(after = 0): AsyncGenerator<StepRecord, void, undefined> {
    let seen = after;
    for (;;) {
      const over = !(await this.isRunning());
      const { recent } = await this.#statusWithPatience();
      for (const record of recent) {
        if (record.step <= seen) continue;
        seen = record.step;
        yield record;
      }
      if (over) return;
      await sleep(POLL_MS);
    }
  }

  async isRunning(): Promise<boolean> {
    return (await this.#handle.describe()).status.name === 'RUNNING';
  }

  /**
   * At a `turn`, rollouts stop before their next turn and nothing is begun; at a `step`, what is under way ends first.
   * Sandboxes are kept. Asking again, or for a run that has not begun, is fine.
   */
  pause(at: PausePoint = 'turn'): Promise<void> {
    return this.#handle.signal('pause', at);
  }

  /** Undoes a pause, wherever it was asked for. */
  resume(): Promise<void> {
    return this.#handle.signal('resume');
  }

  /** Asks the run to end; every sandbox is released first. */
  async cancel(): Promise<void> {
    await this.#handle.cancel();
  }

  /** Changes a live run from its next step on, and writes that down; the configuration then in force comes back. */
  configure(change: Reconfiguration): Promise<RunConfig> {
    return this.#handle.executeUpdate<RunConfig, [Reconfiguration]>('configure', { args: [change] });
  }

  /** Waits for the end. Errors: `WorkflowFailedError` with the run's failure as its cause. */
  result(): Promise<TrainResult> {
    return this.#handle.result() as Promise<TrainResult>;
  }

  /** A query needs a worker: while one is being restarted, a few attempts are made. */
  async #statusWithPatience(): Promise<TrainStatus> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.status();
      } catch (error) {
        if (attempt >= 10 || error instanceof WorkflowNotFoundError) throw error;
        await sleep(POLL_MS * attempt);
      }
    }
  }
}
