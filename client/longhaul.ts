/** The library's client: the command line's functions for programs. Runs live in Temporal, not in this object. */

import { randomUUID } from 'node:crypto';
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandle,
  WorkflowIdConflictPolicy,
  WorkflowIdReusePolicy,
  type WorkflowStartOptions,
} from '@temporalio/client';
import { EVALUATED } from '../config/open-tasks.ts';
import { type EvalSettings, resolveSweepConfig } from '../config/sweep-config.ts';
import { resolveRunConfig, type RunSettings } from '../config/run-config.ts';
import type { SweepConfig } from '../protocol/eval.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import { QUEUES } from '../protocol/queues.ts';
import type { RolloutInput, RolloutResult } from '../protocol/rollout.ts';
import { naming } from '../connection/stack-identity.ts';
import { type ConnectOptions, connectClient, type Surroundings } from './connect.ts';
import { ExternalRollout, rolloutsAtWork } from './external-rollout.ts';
import { EvalHandle } from './durable-handle.ts';
import { refuseOtherSweep, sweepMemo, refuseOtherRun, runMemo } from './same-settings.ts';
import { checkRolloutInput } from './check-input.ts';
import { RunHandle } from './run-handle.ts';

export function newRolloutId(task: string): string {
  return `rollout/${task}/${randomUUID().slice(0, 8)}`;
}

/** A sweep in one line, for Temporal's UI. */
export function summaryOf({ policies, sampling, tasks }: SweepConfig): string {
  const count = 'ids' in tasks ? tasks.ids.length : (tasks.count ?? `at most ${EVALUATED}`);
  return `${policies.length} policies × ${sampling.length} settings × ${count} tasks`;
}

export class Longhaul {
  readonly client: Client;

  private constructor(client: Client) {
    this.client = client;
  }

  /**
   * Connects by `options`, Temporal's environment variables or its profiles, or to the folder's stack, in this order. A
   * connection to a folder's stack stays with that stack, even if its port changes. Errors: `Unreachable` if none of
   * these names a server that answers; `WrongStack` if another stack has taken the port of the folder's stack.
   */
  static async connect(options: ConnectOptions = {}, surroundings: Surroundings = {}): Promise<Longhaul> {
    return new Longhaul(await connectClient(options, surroundings));
  }

  /**
   * Starts the run, or attaches to it if it exists already, running or ended. With `again`, a run that failed or was
   * stopped starts again and continues from its records.
   * Errors: `UserInputError` for a configuration that cannot be used, or if a run of this name is running with another
   * configuration.
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
        staticSummary:
          `${config.tasks.map(({ source }) => source).join(' + ')} · ${config.steps} steps of ` +
          `${config.batch.tasks} × ${config.batch.samples}`,
        memo: runMemo(config),
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    await naming(() => refuseOtherRun(this.client, config));
    return this.run(config.run);
  }

  /**
   * Starts the eval, or attaches to it if it is running with the same settings. An eval that has ended starts again and
   * runs only rollouts that are missing or failed.
   * Errors: `UserInputError` for a configuration that cannot be used, or if an eval of this name is running with
   * another configuration.
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
   * Runs one rollout outside any run, by default under a new id; waits for its end.
   * Errors: `UserInputError` for an input that cannot be used.
   */
  async rollout(input: RolloutInput, workflowId = newRolloutId(input.task)): Promise<RolloutResult> {
    const handle = await this.startRollout(input, workflowId);
    return naming(() => handle.result() as Promise<RolloutResult>);
  }

  /**
   * Starts one rollout outside any run, or attaches to it if it is running; query `state`, signals `pause`, `resume`.
   * Errors: `UserInputError` for an input that cannot be used.
   */
  async startRollout(input: RolloutInput, workflowId: string): Promise<WorkflowHandle> {
    // Checked before it is sent: a wrong endpoint, above all a key in the wrong place, must not get into a history.
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

  /** A rollout whose agent is a program, for that program. */
  external(workflowId: string): ExternalRollout {
    return new ExternalRollout(this.client, workflowId);
  }

  /** Rollouts of a run, or of an eval (`eval/ID`), whose agents are at work: for programs that are these agents. */
  atWork(run: string): AsyncGenerator<ExternalRollout> {
    return rolloutsAtWork(this.client, run);
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
