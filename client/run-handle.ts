/** A handle on one training run: it holds no state of its own, so any number of programs can follow the same run. */

import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Reconfiguration } from '../workflows/training/reconfigure.ts';
import type { TrainResult } from '../workflows/train.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import type { StepRecord } from '../protocol/step-record.ts';
import type { PausePoint, TrainStatus } from '../protocol/train-status.ts';
import { naming, WrongStack } from '../connection/stack-identity.ts';
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
   * The steps after `after`, each once and as it ends; returns when the run is over. From the first `next()` on the run is
   * looked at twice a second, also while the loop's body is busy. Of those that ended before, the run tells the last 20:
   * its `metrics.jsonl` has all. A server that is away is waited for (half an hour). Errors: `StepsMissed` where more than
   * 20 ended between two looks, after what was seen before; the reason of `signal`, at once.
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
   * At a `turn`, rollouts stop before their next turn and nothing is begun; at a `step`, what is under way ends first.
   * Sandboxes are kept. Asking again, or for a run that has not begun, is fine.
   */
  override pause(at: PausePoint = 'turn'): Promise<void> {
    return naming(() => this.handle.signal('pause', at));
  }

  /**
   * Changes a live run from its next step on, and writes that down; the configuration then in force comes back. A run that
   * has not begun, or whose orchestrator is away, is waited for until `signal` fires.
   */
  configure(change: Reconfiguration, signal?: AbortSignal): Promise<RunConfig> {
    const ask = () => this.handle.executeUpdate<RunConfig, [Reconfiguration]>('configure', { args: [change] });
    return naming(() => (signal ? this.handle.client.withAbortSignal(signal, ask) : ask()));
  }

  /** A query needs a worker: while one is being restarted, a few attempts are made. */
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
