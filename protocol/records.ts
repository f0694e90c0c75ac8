/** The records that activities write to the store: their keys and types. A key names the work, never its worker. */

import type { Info } from '@temporalio/activity';
import type { Command } from './command.ts';
import type { EnginePart } from './engine.ts';
import type { FailureClass, FinishReason } from './finish-reason.ts';
import type { HintRule } from './hints.ts';
import type { Place } from './frames.ts';
import type { Message, ParsedTurn } from './message.ts';
import type { ChatAnswer, Offer } from './endpoint.ts';
import type { GenerateCost } from './sampling.ts';
import type { AdmissionState } from './admission.ts';
import type { PolicyRef, ScriptedPolicy } from './policy.ts';
import type { RunConfig } from './run-config.ts';
import type { Attempt, ObjectRef } from './stages.ts';
import type { EvaluationRecord, StepRecord } from './step-record.ts';
import type { OpenedTasks } from './task-key.ts';
import type { UpdateOutcome } from './update.ts';

/** Pads with zeros, so that numbers in keys sort in byte order. */
export function padded(n: number): string {
  return String(n).padStart(5, '0');
}

export function attemptKey({ rollout, attempt }: Pick<Attempt, 'rollout' | 'attempt'>): string {
  return `${rollout}#${attempt}`;
}

/** The id of an attempt's sandbox. `restore` counts its lost sandboxes: each replacement has its own id. */
export function sandboxKey(attempt: Pick<Attempt, 'rollout' | 'attempt'>, restore = 0): string {
  return restore === 0 ? attemptKey(attempt) : `${attemptKey(attempt)}~${restore}`;
}

/** The id of another sandbox of the attempt whose `main` sandbox has the id `main`. */
export function sandboxNamed(main: string, name: string): string {
  return name === 'main' ? main : `${main}+${name}`;
}

/** The id of the `main` sandbox that the sandbox belongs to: of an attempt, or of its grading. */
export function mainSandboxOf(id: string): string {
  return id.replace(/(#[^#+]*)\+[a-z][a-z0-9-]*$/, '$1');
}

type Scheduled = Pick<Info, 'activityType' | 'workflowExecution' | 'activityId'>;

export const keys = {
  generate: (attempt: Attempt, turn: number) => `generate:${attemptKey(attempt)}/${padded(turn)}`,
  act: (attempt: Attempt, turn: number) => `act:${attemptKey(attempt)}/${padded(turn)}`,
  answer: (attempt: Attempt, turn: number, index: number) => `answer:${attemptKey(attempt)}/${padded(turn)}/${index}`,
  /** Prefix of all answers of the attempt. */
  answers: (attempt: Attempt) => `answer:${attemptKey(attempt)}/`,
  start: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `start:${attemptKey(attempt)}`,
  program: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `program:${attemptKey(attempt)}`,
  /** Bytes that the attempt's tools put into the store. */
  object: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, sha256: string) => `object:${attemptKey(attempt)}/${sha256}`,
  mcp: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `mcp:${attemptKey(attempt)}`,
  /** The sessions of a server over HTTP, from 0: each begins when the server has forgotten the one before. */
  mcpSession: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, server: string, number: number) =>
    `${keys.mcpSessions(attempt, server)}${padded(number)}`,
  /** Prefix of the server's sessions. */
  mcpSessions: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, server: string) => `${keys.mcp(attempt)}/${server}/`,
  restored: (sandbox: string) => `restored:${sandbox}`,
  /** `place`: `start`, `step/TURN`, `tool/TURN/INDEX` or `grade`. `number` counts equal questions from 1. */
  ask: (attempt: Pick<Attempt, 'rollout' | 'attempt'>, place: string, digest: string, number: number) =>
    `${keys.asks(attempt)}${place}/${digest}/${number}`,
  /** Prefix of all answers of judges in the attempt. */
  asks: (attempt: Pick<Attempt, 'rollout' | 'attempt'>) => `ask:${attemptKey(attempt)}/`,
  snapshot: (attempt: Attempt, turn: number) => `${keys.snapshots(attempt)}${padded(turn)}`,
  /** Prefix of the attempt's snapshots. */
  snapshots: (attempt: Attempt) => `snapshot:${attemptKey(attempt)}/`,
  collect: (attempt: Attempt) => `collect:${attemptKey(attempt)}`,
  verdict: (attempt: Attempt) => `verdict:${attemptKey(attempt)}`,
  /** Round `round` of the grading failed. Rounds count from 1. */
  ungraded: (attempt: Attempt, round: number) => `${keys.ungradedRounds(attempt)}${padded(round)}`,
  /** Prefix of the failed rounds of the attempt's grading. */
  ungradedRounds: (attempt: Attempt) => `ungraded:${attemptKey(attempt)}/`,
  outcome: (rollout: string) => `outcome:${rollout}`,
  /** `batch`: the workflow id. `groups`: the number of groups in the manifest. */
  manifest: (batch: string, groups: number) => `manifest:${batch}#${padded(groups)}`,
  /** Prefix of all manifests of the batch. */
  manifests: (batch: string) => `manifest:${batch}#`,
  end: (rollout: string) => `end:${rollout}`,
  update: (run: string, step: number) => `update:${run}/${padded(step)}`,
  step: (run: string, step: number) => `step:${run}/${padded(step)}`,
  evaluation: (run: string, step: number) => `evaluation:${run}/${padded(step)}`,
  run: (run: string) => `run:${run}`,
  /** What a run, or `eval/ID`, has agreed on with the engine of these parts. */
  engine: (run: string, parts: readonly EnginePart[]) => `${keys.engines}${run}/${parts.join('+')}`,
  /** Prefix of all of them. */
  engines: 'engine:',
  changes: (run: string, key: string) => `changes:${run}/${key}`,
  /** `number` counts the run's ends: a run that was resumed after an end has several. */
  runEnd: (run: string, number = 1) => (number === 1 ? `run-end:${run}` : `run-end:${run}/${padded(number)}`),
  /** The run was resumed after its end `number`. */
  runAgain: (run: string, number: number) => `run-again:${run}/${padded(number)}`,
  /** The trajectory of a pruned rollout, kept instead of its turns. */
  trajectory: (rollout: string) => `trajectory:${rollout}`,
  /** The records of turns were deleted for this run, or eval (`eval/ID`). */
  pruned: (name: string) => `pruned:${name}`,
  /**
   * Prefix of the executions of one scheduled activity that recorded an end without a result. The workflow's id comes
   * first, so that all of a workflow's records are found by a prefix.
   */
  tries: ({ activityType, workflowExecution, activityId }: Scheduled) =>
    `tries:${workflowExecution?.workflowId ?? ''}#${activityType}/${workflowExecution?.runId ?? ''}/${activityId}/`,
  oneTry: (scheduled: Scheduled & Pick<Info, 'attempt'>) => `${keys.tries(scheduled)}${padded(scheduled.attempt)}`,
  /** A bundle of users' modules that may run, by its digest. */
  modules: (digest: ObjectRef) => `modules:${digest}`,
  /** `digest`: of the endpoint's settings that decide how requests are made. */
  offer: (run: string, digest: string) => `offer:${run}/${digest}`,
} as const;

/** Kinds of records whose keys have the run's name first. */
const RUN_KINDS: ReadonlySet<string> = new Set([
  'update',
  'step',
  'evaluation',
  'run',
  'changes',
  'run-end',
  'run-again',
  'offer',
]);

/** The run, or the eval (`eval/ID`), of the record with this key. `undefined` if it belongs to neither. */
export function runOfKey(key: string): string | undefined {
  // Keys of executions have their kind before the record's key.
  const [, kinds = '', rest = ''] = /^((?:[a-z-]+:)+)(.*)$/su.exec(key) ?? [];
  const kind = kinds.split(':').at(-2) ?? '';
  const [first, second] = rest.split(/[/#]/u);
  if (first === 'eval') return `eval/${second}`;
  if (kind.startsWith('eval-') || kind === 'eval') return `eval/${first}`;
  if (RUN_KINDS.has(kind)) return first;
  return first === 'train' ? second : undefined;
}

/**
 * The key of the result of an execution in the journal. `undefined` for the creation of a sandbox: its end is the event
 * `started`.
 */
export function resultKeyOf(execution: string): string | undefined {
  const [, kind, rest = ''] = /^([a-z]+):(.*)$/su.exec(execution) ?? [];
  if (kind === 'model' || kind === 'judge') return rest;
  if (kind === 'collect' || kind === 'update') return execution;
  if (kind === 'reward') return `verdict:${rest}`;
  if (kind === 'start' || kind === 'program') return execution;
  if (kind === 'step')
    return `act:${rest.slice(0, rest.lastIndexOf('/'))}/${padded(Number(rest.slice(rest.lastIndexOf('/') + 1)))}`;
  const [, attempt = '', turn, index] = /^(.*)\/(\d+)\/(\d+)$/su.exec(rest) ?? [];
  return kind === 'tool' ? `answer:${attempt}/${padded(Number(turn))}/${index}` : undefined;
}

/** One model call: the ids appended to the context, the sampled ids, and how they were parsed. */
export interface GenerateRecord extends Place {
  readonly version: number;
  /** Digest of the policy's files, if a policy from a directory sampled. */
  readonly digest?: string;
  /** Ids appended to the earlier ids of its agent's segment. The whole context if `reset` is true. */
  readonly appended: readonly number[];
  /** True if the template rewrote earlier text: the ids start again, and a new training sequence starts. */
  readonly reset: boolean;
  readonly sampled: readonly number[];
  readonly logprobs: readonly number[];
  /** Temperature of the sampling, 0 for greedy. Absent if nothing was sampled, and in chat. */
  readonly temperature?: number;
  readonly end: 'stop' | 'length' | 'context' | 'refused';
  readonly parsed: ParsedTurn;
  /** The agent's decision. Absent if the policy did not end the turn by itself. */
  readonly command?: Command;
  /** The rules by which the policy was helped after this turn. Absent: none. */
  readonly hints?: readonly HintRule[];
  /** If an endpoint sampled: which one, and in which mode. */
  readonly endpoint?: { readonly baseUrl: string; readonly model: string; readonly offer: Offer };
  /** The script that stood in for a policy; absent: a policy sampled. */
  readonly scripted?: ScriptedPolicy['scripted'];
  /** True if a program reported the turn. */
  readonly reported?: true;
  /** The rollout whose turn it repeats, if the script is `replay`. */
  readonly replayed?: { readonly rollout: string; readonly attempt: number; readonly turns: number };
  /** The stop text that ended the turn, if no token did. It is part of the policy's answer. */
  readonly stopText?: string;
  /** Present if Longhaul's engine sampled. */
  readonly cost?: GenerateCost;
  /** Why this turn cannot be trained on. Absent if it can. */
  readonly untrainable?: string;
  /** The answer in chat mode, in OpenAI's form. There are no ids then. */
  readonly chat?: Pick<ChatAnswer, 'turn' | 'usage'>;
}

/** One tool's answer, whether the call was refused, and the sandbox that it ran in. */
export type AnswerRecord = Extract<Message, { role: 'tool' }> & {
  readonly refused?: true;
  /** Absent if it ran in none. */
  readonly sandbox?: string;
  /** The call exceeded the limits of its message: it was not run, and a retry does not run it. */
  readonly notRun?: true;
  /** Milliseconds that its commands ran, as measured in the sandbox. Absent: 0. */
  readonly ms?: number;
  /** Digest of the call that it answers. */
  readonly call?: string;
};

/** The answers of the tools, or of the environment, to one turn. */
export interface ActRecord {
  readonly messages: readonly Message[];
  /** The environment's state after its `step`. JSON. */
  readonly state?: unknown;
  /** The environment ended the rollout. */
  readonly done?: true;
  /** The environment's reward for the turn. */
  readonly reward?: number;
  readonly metrics?: Readonly<Record<string, number>>;
  /** The policy called `finish`, but a call before it was refused: the policy is informed and the rollout continues. */
  readonly unfinished?: true;
  /** Milliseconds of its commands and of the digest after them, as measured in the sandbox. Absent: 0. */
  readonly ms?: number;
  /** `ms` of all turns so far: how long they take when they are run again. Absent: 0. */
  readonly replayMs?: number;
  /** The sandbox in which the calls ran. */
  readonly sandbox?: string;
  /**
   * Digest of the workspace and the shell after the turn. Absent if it could not be computed, if the sandbox is
   * `untouched`, or if nothing ran after the turn.
   */
  readonly digest?: string;
  /** True if all calls of the attempt so far only read: the sandbox is as it was prepared. */
  readonly untouched?: true;
}

/** The state of an attempt's sandbox after a turn, or why there is none of it. It is pruned with the rollout. */
export type SnapshotRecord = {
  readonly turn: number;
  /** That of the turn's answers. */
  readonly replayMs: number;
} & (
  | { readonly artifact: ObjectRef; readonly shell: { readonly directory: string; readonly exports: string } }
  | { readonly none: string }
);

/** An object of an attempt's tools. It is pruned with the rollout. */
export interface ObjectRecord {
  readonly artifact: ObjectRef;
}

/** How the program that is the agent ended. */
export interface ProgramRecord {
  readonly finish: FinishReason;
  /** For the grader: what the program reported, or printed. Absent: the last message. */
  readonly answer?: string;
  /** Of a program that ran in the sandbox. */
  readonly exit?: {
    readonly code: number | null;
    readonly signal: string | null;
    readonly outOfMemory: boolean;
    /** Bytes of its output that were not kept. */
    readonly droppedBytes: number;
    readonly ms: number;
  };
}

/** The result of the environment's `start`, once per attempt. */
export interface StartRecord {
  /** JSON. */
  readonly state: unknown;
  /** Replace the task's own messages. Absent: the task's own are used. */
  readonly messages?: readonly Message[];
  /** Digest of the workspace after it. Absent: the task has no sandbox, or its workspace is too large. */
  readonly digest?: string;
}

/** The tools of the task's MCP servers, by server, as they were listed when the attempt was prepared. */
export type McpRecord = Readonly<
  Record<
    string,
    ReadonlyArray<{
      readonly name: string;
      readonly description: string;
      readonly inputSchema: Readonly<Record<string, unknown>>;
      /** True if the server says that its calls change nothing. */
      readonly readOnly: boolean;
    }>
  >
>;

/** A session at an MCP server over HTTP. */
export interface McpSession {
  /** What the server named it. Absent: it has none. */
  readonly id?: string;
  /** Of the protocol, as agreed. */
  readonly revision: string;
}

/** A sandbox that replaced a lost one. */
export interface RestoredRecord {
  /** The last turn whose calls were repeated in it. 0: none. */
  readonly turn: number;
}

/** A grading that failed. The next round grades in other sandboxes. */
export interface UngradedRecord {
  readonly error: string;
  readonly message: string;
  readonly at: string;
}

export interface PrunedRecord {
  readonly at: string;
}

/** How a rollout ended. It never changes. */
export interface OutcomeRecord {
  readonly rollout: string;
  readonly task: string;
  /** Says what `task` means. Absent: it starts with an environment's name. */
  readonly catalog?: ObjectRef;
  readonly attempt: number;
  readonly turns: number;
  readonly status: 'graded' | 'failed';
  readonly reward: number | null;
  readonly passed: boolean;
  readonly finish: FinishReason | null;
  readonly failure: FailureClass | null;
  readonly reason: string;
  /** What the reward is made of, by name. Absent: the grader did not say. */
  readonly parts?: Readonly<Record<string, number>>;
  /** Of the environment's steps (the last value of each name) and its grader. Absent: there are none. */
  readonly metrics?: Readonly<Record<string, number>>;
}

/**
 * The groups and rollouts of a batch, written when all of them have ended. It is found by the batch's name.
 * A batch that is rolled out again may draw more groups, after the same first ones: the manifest with the most groups
 * is valid. A rollout's end is under `keys.outcome`, its turns under the keys of its attempt.
 */
export interface BatchManifest {
  readonly run: string;
  /** Workflow id. */
  readonly batch: string;
  /** Says what the tasks' keys mean. Absent: they start with an environment's name. */
  readonly catalog?: ObjectRef;
  /** In the order of the batch's tasks. */
  readonly groups: ReadonlyArray<{ readonly task: string; readonly rollouts: readonly string[] }>;
}

export interface RunRecord {
  readonly run: string;
  readonly runDir: string;
  readonly seed: number;
  readonly startedAt: string;
  readonly policy: {
    readonly base: string;
    readonly parameters: number;
    readonly vocabulary: number;
    /** The longest context that its configuration allows. */
    readonly positions?: number;
  };
  /** The critic's base directory, if a critic is trained. */
  readonly critic?: { readonly base: string };
  readonly task: { readonly name: string; readonly train: number; readonly heldOut: number };
  readonly tasks: OpenedTasks;
  /** Digest of its modules, as in its catalog. Absent: it has none. */
  readonly modules?: ObjectRef;
  /** The resolved configuration and its digest: the run's name belongs to this configuration only. */
  readonly config?: RunConfig;
  readonly configSha256?: string;
}

export interface StepEntry {
  readonly record: StepRecord;
  readonly policy: PolicyRef;
  /** Of the weights; `null` if the backend does not tell it. */
  readonly sha256: string | null;
  readonly keep: boolean;
  /** Milliseconds in which the run was not paused until then. Absent: not known. */
  readonly workedMs?: number;
  /** If rollouts and updates overlap: the units that had started and were not trained on. */
  readonly overlap?: AdmissionState;
}

/** Names of the batches that contain a step's groups. */
export function batchesOf({ step, batches }: Pick<StepRecord, 'step' | 'batches'>): readonly string[] {
  return batches ?? [`step-${step}`];
}

export interface EvaluationEntry {
  readonly step: number;
  readonly evaluation: EvaluationRecord;
}

export interface RunEnd {
  readonly status: 'completed' | 'failed' | 'cancelled';
  readonly finishedAt: string;
  readonly message: string;
  /** Milliseconds in which the run was not paused until then. Absent: not known. */
  readonly workedMs?: number;
  /** Temporal's run id of the execution that reported the end. */
  readonly execution?: string;
}

/** A failed or cancelled run was started again. */
export interface RunAgain {
  readonly at: string;
  /** Temporal's run id of the execution that continues the run. */
  readonly execution?: string;
}

/** `metrics`: further metrics, under SkyRL's names if it has them. They stay in the store, out of histories. */
export interface UpdateEntry extends UpdateOutcome {
  /** If rollouts and updates overlap: the numbers of the units that were trained on. */
  readonly units?: readonly number[];
  readonly metrics?: Readonly<Record<string, number>>;
}

/**
 * An execution that ended without a result. `spared`: it does not count, since it was cancelled or its worker was
 * stopped.
 */
export interface TryRecord {
  readonly end: 'failed' | 'spared';
  readonly error: string;
  readonly message: string;
  readonly at: string;
  /** Milliseconds used so far of the time limit for failures of this kind. Absent: there is no such limit. */
  readonly spentMs?: number;
}
