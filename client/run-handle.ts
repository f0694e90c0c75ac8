/** A handle on one training run: it has no state, so any number of programs can follow the same run. */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Reconfiguration } from '../workflows/training/reconfigure.ts';
import type { TrainResult } from '../workflows/train.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import type { StepRecord } from '../protocol/step-record.ts';
import type { PausePoint, TrainStatus } from '../protocol/train-status.ts';
import { WrongStack } from '../connection/stack-identity.ts';
import { whileAway } from './while-away.ts';
import { DurableHandle } from './durable-handle.ts';
import { lookOn } from './look-on.ts';
import { NewSteps } from './new-steps.ts';

const POLL_MS = 500;

export class RunHandle extends DurableHandle<TrainStatus, TrainResult> {
  readonly run: string;

  constructor(client: Client, run: string) {
    super(client, `train/${run}`);
    this.run = run;
  }

  /**
   * The steps after `after`, each once and as it ends; returns when the run is over. From the first `next()` it polls
   * the run twice a second, also while the loop's body is busy. Of the steps that ended before, the run keeps the last
   * 20; its `metrics.jsonl` has all. It waits for a server that is away (half an hour). Errors: `StepsMissed` if more
   * than 20 steps ended between two polls, after the steps found before; the reason of `signal`, at once.
   */
  steps(after = 0, signal?: AbortSignal): AsyncGenerator<StepRecord, void, undefined> {
    const news = new NewSteps(this.run, after);
    const look = async (left: AbortSignal) => {
      const over = !(await whileAway(() => this.isRunning(), { signal: left, ref: false }));
      return { items: news.in(await this.#statusWithPatience(left)), over };
    };
    return lookOn(look, POLL_MS, signal);
  }

  /**
   * `turn`: rollouts stop before their next turn, and nothing new starts. `step`: rollouts and updates in progress end
   * first. Sandboxes are kept. A run may be paused again, or before it has started.
   */
  override pause(at: PausePoint = 'turn'): Promise<void> {
    return this.found(() => this.handle.signal('pause', at));
  }

  /**
   * Changes a live run from its next step on, and records the change. Returns the configuration that is then in effect.
   * Waits, until `signal` fires, for a run that has not started or whose orchestrator is away.
   */
  configure(change: Reconfiguration, signal?: AbortSignal): Promise<RunConfig> {
    const ask = () => this.handle.executeUpdate<RunConfig, [Reconfiguration]>('configure', { args: [change] });
    return this.found(() => (signal ? this.handle.client.withAbortSignal(signal, ask) : ask()));
  }

  /** A query needs a worker: it is retried a few times, since a worker may be restarting. */
  async #statusWithPatience(signal: AbortSignal): Promise<TrainStatus> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.status();
      } catch (error) {
        if (attempt >= 10 || error instanceof WorkflowNotFoundError || error instanceof WrongStack) throw error;
        await sleep(POLL_MS * attempt, undefined, { signal, ref: false });
      }
    }
  }
}
