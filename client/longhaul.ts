/** The programmatic client: what the command line does, for programs. Runs live in Temporal, not in this object. */

import { randomUUID } from 'node:crypto';
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandle,
  WorkflowIdConflictPolicy,
  WorkflowIdReusePolicy,
  type WorkflowStartOptions,
} from '@temporalio/client';
import { type EvalSettings, resolveSweepConfig } from '../config/sweep-config.ts';
import { resolveRunConfig, type RunSettings } from '../config/run-config.ts';
import type { SweepConfig } from '../protocol/eval.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import { QUEUES } from '../protocol/queues.ts';
import type { RolloutInput, RolloutResult } from '../protocol/rollout.ts';
import { naming } from '../connection/stack-identity.ts';
import { type ConnectOptions, connectClient, type Surroundings } from './connect.ts';
import { EvalHandle } from './durable-handle.ts';
import { refuseOtherSweep, sweepMemo, refuseOtherRun, runMemo } from './same-settings.ts';
import { checkRolloutInput } from './check-input.ts';
import { RunHandle } from './run-handle.ts';

export function newRolloutId(task: string): string {
  return `rollout/${task}/${randomUUID().slice(0, 8)}`;
}

/** A sweep in a line, for Temporal's UI. */
export function summaryOf({ policies, sampling, tasks }: SweepConfig): string {
  const count = 'ids' in tasks ? tasks.ids.length : tasks.count;
  return `${policies.length} policies × ${sampling.length} settings × ${count} tasks`;
}

export class Longhaul {
  readonly client: Client;

  private constructor(client: Client) {
    this.client = client;
  }

  /**
   * Connects by `options`, Temporal's environment variables or its profiles, or to the stack of the folder, in this order.
   * A connection to a folder's stack stays with that stack, also on another port. Errors: `Unreachable` where none of
   * these names a server that answers; `WrongStack` where another stack has taken the port of the folder's.
   */
  static async connect(options: ConnectOptions = {}, surroundings: Surroundings = {}): Promise<Longhaul> {
    return new Longhaul(await connectClient(options, surroundings));
  }

  /**
   * Starts the run, or attaches to it where it exists already, running or ended. With `again`, one that failed or was
   * stopped starts anew and goes on from its records.
   * Errors: `UserInputError` for a configuration that cannot be used, and for one that the run which goes on under this
   * name did not begin with.
   */
  async train(
    given: RunSettings | RunConfig,
    { again = false }: { readonly again?: boolean } = {},
  ): Promise<RunHandle> {
    const config = resolveRunConfig(given, process.cwd());
    try {
      await this.#start('train', {
        taskQueue: QUEUES.orchestrator,
        workflowId: `train/${config.run}`,
        args: [config],
        workflowIdReusePolicy: again
          ? WorkflowIdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
          : WorkflowIdReusePolicy.REJECT_DUPLICATE,
        workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
        staticSummary: `${config.task.name} · ${config.steps} steps of ${config.batch.tasks} × ${config.batch.samples}`,
        memo: runMemo(config),
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    await naming(() => refuseOtherRun(this.client, config));
    return this.run(config.run);
  }

  /**
   * Starts the eval, or attaches to it where it is going on with the same settings. One that has ended starts again and
   * runs what is missing or failed: nothing, where every rollout was graded.
   * Errors: `UserInputError` for a configuration that cannot be used, and for one that is not that of the eval that goes
   * on under this name.
   */
  async evaluate(given: EvalSettings | SweepConfig): Promise<EvalHandle> {
    const config = resolveSweepConfig(given, process.cwd());
    await this.#start('evalSweep', {
      taskQueue: QUEUES.orchestrator,
      workflowId: `eval/${config.eval}`,
      args: [config],
      workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
      workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
      staticSummary: summaryOf(config),
      memo: sweepMemo(config),
    });
    await naming(() => refuseOtherSweep(this.client, config));
    return this.evaluation(config.eval);
  }

  /**
   * One rollout on its own, by default under an id of its own; waits for its end.
   * Errors: `UserInputError` for what cannot be used.
   */
  async rollout(input: RolloutInput, workflowId = newRolloutId(input.task)): Promise<RolloutResult> {
    const handle = await this.startRollout(input, workflowId);
    return naming(() => handle.result() as Promise<RolloutResult>);
  }

  /**
   * Starts one rollout on its own, or attaches to it where it is going on; query `state`, signals `pause` and `resume`.
   * Errors: `UserInputError` for what cannot be used.
   */
  async startRollout(input: RolloutInput, workflowId: string): Promise<WorkflowHandle> {
    // Here already: what is wrong with an endpoint, a key in the wrong place above all, belongs in no history.
    checkRolloutInput(input);
    return this.#start('rollout', {
      taskQueue: QUEUES.orchestrator,
      workflowId,
      args: [input],
      workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
      staticSummary: `${input.task} · policy v${input.policy.version ?? 0}`,
    });
  }

  run(id: string): RunHandle {
    return new RunHandle(this.client, id);
  }

  evaluation(id: string): EvalHandle {
    return new EvalHandle(this.client, id);
  }

  #start(type: string, options: WorkflowStartOptions): Promise<WorkflowHandle> {
    return naming(() => this.client.workflow.start(type, options));
  }

  async close(): Promise<void> {
    await this.client.connection.close();
  }
}
