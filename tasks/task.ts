/** A task: one problem. It depends only on its id, so any worker can make it. */

import type { Verdict } from '../protocol/stages.ts';
import type { Message } from '../protocol/message.ts';
import type { Sandbox, SandboxProvider, SandboxSpec } from '../sandboxes/sandbox.ts';

export type Split = 'train' | 'held-out';

export interface Task {
  /** `ENVIRONMENT-SPLIT-N`, for example `swe-mini-train-17`. */
  readonly id: string;
  /** The group for which pass rates are reported separately, such as the bug family. */
  readonly family: string;
  readonly messages: readonly Message[];
  readonly tools: readonly string[];
}

/** A task id, or an index, for which the environment has no task. */
export class UnknownTask extends Error {
  override readonly name = 'UnknownTask';
  readonly taskId: string;

  constructor(taskId: string, expected: string) {
    super(`there is no task ${JSON.stringify(taskId)}: ${expected}`);
    this.taskId = taskId;
  }
}

export interface Environment {
  readonly name: string;
  /**
   * Number of tasks of a split, if it is limited. A configuration that needs more is an error before anything starts.
   */
  size?(split: Split): number;
  /** `NAME-SPLIT-INDEX`. */
  taskId(split: Split, index: number): string;
  load(taskId: string): Task;
  /** The agent's sandbox. */
  sandbox(taskId: string, sandboxId: string): Omit<SandboxSpec, 'ttlSeconds'>;
  /**
   * Returns the artifact to grade (a diff), taken from the agent's sandbox before its release. Empty if nothing
   * changed. If the agent's own actions prevent it, that fact is the artifact. If the machine may be at fault, it
   * throws, and the collection is retried. `provider` may make control sandboxes, which end with the execution.
   * `execution` counts the executions from 1 (the default): it is part of the call ids, each of which the sandbox runs
   * once.
   */
  collect(taskId: string, sandbox: Sandbox, provider: SandboxProvider, execution?: number): Promise<Uint8Array>;
  /** Grades in new sandboxes of `provider`. It may destroy them; the remaining ones end with the execution. */
  grade(taskId: string, artifact: Uint8Array, provider: SandboxProvider, sandboxId: string): Promise<Verdict>;
}
