/** A task: one problem, made from its id alone, so that any worker can rebuild it. */

import type { Verdict } from '../protocol/stages.ts';
import type { Message } from '../protocol/message.ts';
import type { Sandbox, SandboxProvider, SandboxSpec } from '../sandboxes/sandbox.ts';

export type Split = 'train' | 'held-out';

export interface Task {
  /** `ENVIRONMENT-SPLIT-N`, for example `swe-mini-train-17`. */
  readonly id: string;
  /** What pass rates are broken down by: the bug family. */
  readonly family: string;
  readonly messages: readonly Message[];
  readonly tools: readonly string[];
}

/** A task id, or an index, that its environment has no task of. */
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
  /** How many tasks a split has, where that is bounded: what asks for more is refused before anything starts. */
  size?(split: Split): number;
  /** `NAME-SPLIT-INDEX`. */
  taskId(split: Split, index: number): string;
  load(taskId: string): Task;
  /** The agent's sandbox. */
  sandbox(taskId: string, sandboxId: string): Omit<SandboxSpec, 'ttlSeconds'>;
  /**
   * What is graded, taken from the agent's sandbox before it is released (a diff). Empty when nothing changed. Where the
   * agent itself is why nothing can be had, that is what is graded; where the machine may be, it is an error, and tried
   * again. A control may be made by `provider`; what it leaves ends with the execution. `execution` counts the tries from
   * 1 (the default): part of the names of the calls, which the sandbox runs once each.
   */
  collect(taskId: string, sandbox: Sandbox, provider: SandboxProvider, execution?: number): Promise<Uint8Array>;
  /** Grades in a fresh sandbox of `provider`, which it may destroy; what it leaves ends with the execution. */
  grade(taskId: string, artifact: Uint8Array, provider: SandboxProvider, sandboxId: string): Promise<Verdict>;
}
