/**
 * The seam of tasks. An environment, opened with options, is a dataset. A dataset has tasks by split and index: what
 * the agent receives, where it acts, and how its work is graded.
 */

import type { z } from 'zod';
import type { McpServers } from '../agents/mcp/server.ts';
import type { SubAgents } from '../agents/sub-agents.ts';
import type { ToolChoice } from '../agents/tools/toolbox.ts';
import type { FinishReason } from '../protocol/finish-reason.ts';
import type { Message } from '../protocol/message.ts';
import type { Said } from '../protocol/transcript.ts';
import type { AgentChoice, Verdict } from '../protocol/stages.ts';
import type { Sandbox, SandboxLimits, SandboxProvider, SandboxSpec } from '../sandboxes/sandbox.ts';

/** `defineEnvironment` checks a user's environments. */
export interface Environment<Options = unknown> {
  /** Letters, digits, dot, dash and underscore. */
  readonly name: string;
  /** Checks the `options` of a configured entry and fills in defaults. Absent: the environment takes none. */
  readonly options?: z.ZodType<Options>;
  /** Names of the judges that its tasks ask. A configuration without one of them is refused. Absent: none. */
  readonly judges?: readonly string[];
  /** Names of further judges that its tasks ask with these options. Absent: none. */
  judgesOf?(options: Options): readonly string[];
  /** Called once per process for the same options. Errors: any; for a bad record, with its file, number and field. */
  open(options: Options, io: EnvironmentIo): Promise<Dataset>;
}

/** What an environment may use of the machine when it opens a dataset. */
export interface EnvironmentIo {
  /**
   * The absolute path of a file or folder that the option `name` gives. Relative paths start at the configuration's
   * folder. Errors: `UserInputError` if this process may not read there.
   */
  path(name: string, path: string): string;
  /**
   * A file of a dataset on a hub, which the option `name` gives as `hub:OWNER/NAME@REVISION/PATH`: from the cache, else
   * downloaded to it. For one run or eval, every process gets the same commit. Absent: hub ids cannot be used. Errors:
   * `DataUnavailable`; `UserInputError` for another text.
   */
  hub?(name: string, id: string): Promise<HubFile>;
  /**
   * As `path`, for a program, or a file or folder with code. Errors: `UserInputError` if this process may not run it.
   * Absent: it runs none.
   */
  code?(name: string, path: string): string;
}

/** A file of a commit of a dataset. */
export interface HubFile {
  /** Absolute, in the hub's cache. */
  readonly path: string;
  /** 40 hexadecimal digits. */
  readonly commit: string;
}

export interface Dataset {
  /** Changes if a record changes: SHA-256 of the files, or the version of a generator. */
  readonly digest: string;
  /** Number of tasks of each split, by name (`train`, `held-out`, `test`). */
  readonly splits: Readonly<Record<string, number>>;
  /** What a reader should know of the whole, such as records that were left out. `longhaul check` prints it. */
  readonly notes?: readonly string[];
  /** The task's name in its source, for readers. Absent: it has none. */
  label?(split: string, index: number): string;
  /** Returns the same task in every process. Errors: `UnknownTask`; any for a bad record. */
  load(split: string, index: number): Promise<Task>;
}

/** Name of a task's only sandbox, or of the one that its tools act on. */
export const MAIN = 'main';

/** A sandbox that a task needs. The worker adds its id and its lifetime. */
export interface SandboxRequest extends Omit<SandboxSpec, 'id' | 'ttlSeconds' | 'limits' | 'network' | 'setUpSeconds'> {
  /** Absent fields: the task's `resources`, or their defaults. */
  readonly limits?: Partial<SandboxLimits>;
  /**
   * The task's sandboxes that name the same network reach each other, and nothing else: each under its name, which all
   * of them resolve to the loopback address that they share. So their ports must differ.
   */
  readonly network?: string;
}

/** What a task may take. Each field may be absent. */
export interface Resources {
  /** Of each sandbox that has no limit of its own. Default: 512. */
  readonly memoryMiB?: number;
  /** Processors of each sandbox that does not say it. Default: 1. */
  readonly cpus?: number;
  /** Of each sandbox that has no limit of its own. Default: 256. */
  readonly diskMiB?: number;
  /** For a sandbox's `setup`, and for `start`. Default: 600 for a set-up, none for `start`. */
  readonly setUpSeconds?: number;
  /** For one tool call, in place of the configuration's `agent.toolTimeoutSeconds`. */
  readonly toolSeconds?: number;
  /** For one execution of `grade`. A later one does not start the calls of a lost one again. Default: 900. */
  readonly gradeSeconds?: number;
}

export interface Task {
  /** The group for which pass rates are reported separately, such as the bug family. Absent: the source's name. */
  readonly family?: string;
  /** The first messages to the policy. */
  readonly messages: readonly Message[];
  /** Names of tools, or names and options. Their order is that of the prompt. */
  readonly tools: readonly ToolChoice[];
  /** Servers of further tools by name, in the sandbox `main` or over HTTP. Their tools are offered as `NAME__TOOL`. */
  readonly mcp?: McpServers;
  /** The type of agent for the task, and its options. Absent: `tools` if the task has tools, else `text`. */
  readonly agent?: AgentChoice;
  /** Sub-agents by name, which the tool `delegate` can call. They act in the task's sandboxes. Absent: none. */
  readonly agents?: SubAgents;
  /** By name; the tools act on `main`. They are made and lost together. Empty or absent: the task needs none. */
  readonly sandboxes?: Readonly<Record<string, SandboxRequest>>;
  /**
   * Where `grade` runs. `fresh` (the default): `ctx.sandbox` makes sandboxes that no agent has used. `agents`: in the
   * agent's own sandboxes, before their release. `none`: there are no sandboxes; the work alone says the verdict.
   */
  readonly gradedIn?: 'fresh' | 'agents' | 'none';
  readonly resources?: Resources;
  /** Called once, before the first turn. `step` receives its state. Its messages replace the task's own. */
  start?(ctx: TaskContext): Promise<{ readonly state: unknown; readonly messages?: readonly Message[] }>;
  /**
   * Answers a message of the task's own agent, or of a sub-agent that asks for it (`ctx.agentPath`). After a lost
   * worker it may run again with the same state, so it must change the world through `ctx` only. The state is JSON.
   */
  step?(ctx: TaskContext, state: unknown, message: string): Promise<StepResult>;
  /**
   * What the policy reads first in the segment that its summary opens, in place of the first messages and the summary.
   * `segment` counts from 2. Pure. Absent: these.
   */
  openSegment?(summary: string, segment: number): readonly Message[];
  /**
   * True: `step` depends on its state and message alone, uses nothing of `ctx` but `agentPath`, and changes nothing.
   * `longhaul rescore` calls such a step again, and refuses rollouts with other steps. Absent: it is not known.
   */
  readonly stepIsPure?: boolean;
  /**
   * Returns the artifact to grade (a diff), taken from the agent's sandboxes before their release. Absent: there is
   * none. If the agent's own actions prevent it, that fact is the artifact. If the machine may be at fault, it throws,
   * and the collection is retried.
   */
  collect?(ctx: TaskContext): Promise<Uint8Array>;
  grade(ctx: TaskContext, work: Work): Promise<Verdict>;
  /** The messages of a policy that solves the task, in order. Absent: no such messages are known. */
  oracle?(ctx: Pick<TaskContext, 'key' | 'signal'>): Promise<readonly Message[]>;
}

/** The environment's answer to a message of the policy. */
export interface StepResult {
  readonly state: unknown;
  /** The messages to the policy before its next turn. */
  readonly messages: readonly Message[];
  /** True: the rollout ends, and is graded. */
  readonly done?: boolean;
  /** The turn's own reward, at its last token. The rest of the verdict's reward is at the last turn's last token. */
  readonly reward?: number;
  readonly metrics?: Readonly<Record<string, number>>;
}

/** True if the task asks for a sandbox. */
export function hasSandbox({ sandboxes = {} }: Pick<Task, 'sandboxes'>): boolean {
  return Object.keys(sandboxes).length > 0;
}

/** The work to grade. */
export interface Work {
  /**
   * All messages of the rollout, the task's own first. Those of a sub-agent have its `agentPath`, those after a summary
   * their `segment`.
   */
  readonly transcript: readonly Said[];
  /** The `answer` of the finish tool, or the last message if it ended the rollout. Empty if there is none. */
  readonly answer: string;
  readonly finish: FinishReason;
  readonly turns: number;
  /** The result of `collect`. Empty without `collect`. */
  readonly artifact: Uint8Array;
  /** The state after the last `step`; without one, that of `start`. `undefined` if the task has neither. */
  readonly state: unknown;
  /** The reward of each turn's `step`, in order; 0 for a turn without one. */
  readonly turnRewards: readonly number[];
}

/** What a judge is asked: a text, or messages of which the last one wants an answer. */
export type Question =
  | string
  | ReadonlyArray<{ readonly role: 'system' | 'user' | 'assistant'; readonly content: string }>;

/**
 * Asks a configured judge, and returns the text of its answer. The answer is recorded: after a lost worker the same
 * question gets the same answer. `judge` may be left out if one is configured. If the judge gives none, the calling
 * function's result does not count, whatever it catches: the rollout is held, and continues when the run is resumed.
 * Errors: `QuestionRefused` if the server refuses this question; the function may catch it.
 */
export type Ask = (question: Question, options?: { readonly judge?: string }) => Promise<string>;

/** What a task's functions may use. */
export interface TaskContext {
  /** `SOURCE-SPLIT-N`. */
  readonly key: string;
  /** The sandbox of this name (default: `main`). In `grade` it is a fresh one, unless `gradedIn` says otherwise. */
  sandbox(name?: string): Promise<Sandbox>;
  /** Makes further sandboxes. The function may destroy them; the remaining ones end with the execution. */
  readonly provider: SandboxProvider;
  /**
   * Prefix of call ids and of the ids of further sandboxes, unique for this execution. In `grade`, for all executions
   * until one fails: a call with a known id, after a lost worker, attaches to the one under way or returns its result.
   */
  readonly id: string;
  /**
   * Counts the executions from 1; in `grade`, only failed ones count. It is part of the call ids, each of which the
   * sandbox runs once.
   */
  readonly execution: number;
  /** In `step`: `NAME@TURN` of each sub-agent down to the one that speaks. Absent: it is the task's own agent. */
  readonly agentPath?: readonly string[];
  /** Asks a judge. Not in `collect`. */
  readonly ask: Ask;
  /** Milliseconds since the epoch, by when the function must have ended. Infinity if it has no limit. */
  readonly deadline: number;
  /** Aborted if the result no longer counts. */
  readonly signal: AbortSignal;
}

/** A task key, or a split and index, for which the dataset has no task. */
export class UnknownTask extends Error {
  override readonly name = 'UnknownTask';
  readonly task: string;

  constructor(task: string, expected: string) {
    super(`there is no task ${JSON.stringify(task)}: ${expected}`);
    this.task = task;
  }
}
