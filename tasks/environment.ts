/**
 * The seam of tasks. An environment is a kind of task; opened with options it is a dataset; a dataset's records are tasks:
 * what the agent is given, where it acts, and how its work is graded.
 */

import type { z } from 'zod';
import type { FinishReason } from '../protocol/finish-reason.ts';
import type { Message } from '../protocol/message.ts';
import type { AgentChoice, Verdict } from '../protocol/stages.ts';
import type { Sandbox, SandboxProvider, SandboxSpec } from '../sandboxes/sandbox.ts';

/** Somebody's own environments are checked when they are defined: `defineEnvironment`. */
export interface Environment<Options = unknown> {
  /** Letters, digits, dot, dash and underscore. */
  readonly name: string;
  /** Checks the `options` of a configured entry and fills in defaults. Absent: the environment takes none. */
  readonly options?: z.ZodType<Options>;
  /**
   * Once in each process for the same options. Errors: any; a bad record is named by file, number and field.
   */
  open(options: Options, io: EnvironmentIo): Promise<Dataset>;
}

/** What an environment may use of the machine while it opens a dataset. */
export interface EnvironmentIo {
  /**
   * The absolute path of a file or folder that the option `name` gives; a relative one is taken from the configuration's
   * folder. Errors: `UserInputError` if this process may not read there.
   */
  path(name: string, path: string): string;
}

export interface Dataset {
  /** Changes if a record changes: SHA-256 of the files, or the version of a generator. */
  readonly digest: string;
  /** Number of tasks of each split, by name (`train`, `held-out`, `test`). */
  readonly splits: Readonly<Record<string, number>>;
  /** The record's name in its source, for people. Absent: it has none. */
  label?(split: string, index: number): string;
  /** The same task for the same place, in every process. Errors: `UnknownTask`; any for a bad record. */
  load(split: string, index: number): Promise<Task>;
}

/** Name of a task's sandbox if it has one only. */
export const MAIN = 'main';

/** A sandbox that a task asks for; the worker names it and says how long it lives. */
export type SandboxRequest = Omit<SandboxSpec, 'id' | 'ttlSeconds'>;

export interface Task {
  /** Pass rates are broken down by it. Absent: the source's name. */
  readonly family?: string;
  /** What the agent is shown first. */
  readonly messages: readonly Message[];
  /** Names of tools. */
  readonly tools: readonly string[];
  /** The type of agent that the task is made for, and its options. Absent: `tools` if the task has tools, else `text`. */
  readonly agent?: AgentChoice;
  /** By name; the tools act on `main`. Empty or absent: the task needs none. */
  readonly sandboxes?: Readonly<Record<string, SandboxRequest>>;
  /**
   * Where `grade` runs. `fresh`: `ctx.sandbox` makes sandboxes that no agent has touched (the default). `agents`: in the
   * agent's own ones, before they are released.
   */
  readonly gradedIn?: 'fresh' | 'agents';
  /** Once, before the first turn. Its state is handed to `step`; its messages stand in place of the task's own. */
  start?(ctx: TaskContext): Promise<{ readonly state: unknown; readonly messages?: readonly Message[] }>;
  /**
   * Reads a message of the policy and answers it. It may run again after a lost worker, with the same state: what it does
   * to the world goes through `ctx` alone. State is JSON.
   */
  step?(ctx: TaskContext, state: unknown, message: string): Promise<StepResult>;
  /**
   * Takes what is graded out of the agent's sandboxes before they are released (a diff). Absent: nothing is taken. If the
   * agent is the reason that nothing can be had, that is what is graded; if the machine may be, throw: it is retried.
   */
  collect?(ctx: TaskContext): Promise<Uint8Array>;
  grade(ctx: TaskContext, work: Work): Promise<Verdict>;
}

/** What an environment answers to a message of the policy. */
export interface StepResult {
  readonly state: unknown;
  /** What the policy is shown before its next turn. */
  readonly messages: readonly Message[];
  /** True: the rollout ends, and is graded. */
  readonly done?: boolean;
  /** The turn's own reward, at its last token; what is left of the verdict's stands at the last turn's. */
  readonly reward?: number;
  readonly metrics?: Readonly<Record<string, number>>;
}

/** What is graded. */
export interface Work {
  /** All messages of the rollout, the task's own first. */
  readonly transcript: readonly Message[];
  /** The `answer` of the finish tool, or the last message if that ended the rollout. Empty if there is none. */
  readonly answer: string;
  readonly finish: FinishReason;
  readonly turns: number;
  /** What `collect` took; empty without `collect`. */
  readonly artifact: Uint8Array;
  /** After the last `step`, or of `start`; `undefined` if the task has neither. */
  readonly state: unknown;
}

/** What a task's functions may use of the world. */
export interface TaskContext {
  /** `SOURCE-SPLIT-N`. */
  readonly key: string;
  /** The sandbox of this name, `main` if none is given. In `grade`, unless `gradedIn` is `agents`, a fresh one. */
  sandbox(name?: string): Promise<Sandbox>;
  /** Makes further sandboxes; they end with this call. */
  readonly provider: SandboxProvider;
  /** A name for further sandboxes, unique for this execution; theirs begin with it. */
  readonly id: string;
  /** Counts the executions of this call from 1. */
  readonly execution: number;
  /** Aborted if nobody waits for the result any more. */
  readonly signal: AbortSignal;
}

/** A key, or a place, that a dataset has no task of. */
export class UnknownTask extends Error {
  override readonly name = 'UnknownTask';
  readonly task: string;

  constructor(task: string, expected: string) {
    super(`there is no task ${JSON.stringify(task)}: ${expected}`);
    this.task = task;
  }
}
