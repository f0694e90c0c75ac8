/** The programmatic client: what the command line does, for programs. Runs live in Temporal, not in this object. */

import { type Client, WorkflowExecutionAlreadyStartedError, type WorkflowHandle, WorkflowIdConflictPolicy, WorkflowIdReusePolicy } from '@temporalio/client';
import { randomUUID } from 'node:crypto';
import { UserInputError } from '../activities/failures.ts';
import { resolveRunConfig } from '../activities/run-config.ts';
import { QUEUES } from '../workflows/queues.ts';
import { resolvePolicy } from '../workflows/resolve-policy.ts';
import type { RolloutInput, RolloutResult } from '../workflows/types.ts';
import { type ConnectOptions, connectClient } from './connect.ts';
import { RunHandle } from './run-handle.ts';

export function newRolloutId(task: string): string {
  return `rollout/${task}/${randomUUID().slice(0, 8)}`;
}

export class Longhaul {
  readonly client: Client;

  private constructor(client: Client) {
    this.client = client;
  }

  /** Connects by `options`, Temporal's environment variables, or its profiles, in this order. */
  static async connect(options: ConnectOptions = {}): Promise<Longhaul> {
    return new Longhaul(await connectClient(options));
  }

  /**
   * Starts the run, or attaches to it where it exists already, running or ended. With `again`, one that failed or was
   * stopped starts anew and goes on from its records.
   * Errors: `UserInputError` for a configuration that cannot be used.
   */
  async train(given: unknown, { again = false }: { readonly again?: boolean } = {}): Promise<RunHandle> {
    const config = resolveRunConfig(given, process.cwd());
    try {
      await this.client.workflow.start('train', {
        taskQueue: QUEUES.orchestrator,
        workflowId: `train/${config.run}`,
        args: [config],
        workflowIdReusePolicy: again
          ? WorkflowIdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
          : WorkflowIdReusePolicy.REJECT_DUPLICATE,
        workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
        staticSummary: `${config.task.name} · ${config.steps} steps of ${config.batch.tasks} × ${config.batch.samples}`,
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    return this.run(config.run);
  }

  /**
   * One rollout on its own, by default under an id of its own; waits for its end.
   * Errors: `UserInputError` for a policy that cannot be used.
   */
  async rollout(input: RolloutInput, workflowId = newRolloutId(input.task)): Promise<RolloutResult> {
    return (await this.startRollout(input, workflowId)).result() as Promise<RolloutResult>;
  }

  /**
   * Starts one rollout on its own, or attaches to it where it is going on; query `state`, signals `pause` and `resume`.
   * Errors: `UserInputError` for a policy that cannot be used.
   */
  async startRollout(input: RolloutInput, workflowId: string): Promise<WorkflowHandle> {
    // Here already: what is wrong with an endpoint, a key in the wrong place above all, belongs in no history.
    resolvePolicy(input.policy, (field, value, remedy) => {
      throw new UserInputError(field, value, remedy);
    });
    return this.client.workflow.start('rollout', {
      taskQueue: QUEUES.orchestrator,
      workflowId,
      args: [input],
      workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
      staticSummary: `${input.task} · policy v${input.policy.version}`,
    });
  }

  run(id: string): RunHandle {
    return new RunHandle(this.client, id);
  }

  async close(): Promise<void> {
    await this.client.connection.close();
  }
}
