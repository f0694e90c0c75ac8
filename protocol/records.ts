/** The shapes of the records that activities write to the store. Their keys are in record-keys.ts. */

import type { Command } from './command.ts';
import type { FailureClass, FinishReason } from './finish-reason.ts';
import type { HintRule } from './hints.ts';
import type { Place } from './frames.ts';
import type { Message, ParsedTurn } from './message.ts';
import type { ChatAnswer, Offer } from './endpoint.ts';
import type { CallOfTurn } from './gateway.ts';
import type { GenerateCost } from './sampling.ts';
import type { AdmissionState } from './admission.ts';
import type { PolicyRef, ScriptedPolicy } from './policy.ts';
import type { RunConfig } from './run-config.ts';
import type { ObjectRef } from './stages.ts';
import type { EvaluationRecord, StepRecord } from './step-record.ts';
import type { OpenedTasks } from './task-key.ts';
import type { UpdateOutcome } from './update.ts';

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
  /** The script that replaced a policy; absent: a policy sampled. */
  readonly scripted?: ScriptedPolicy['scripted'];
  /** True if a program reported the turn. */
  readonly reported?: true;
  /** Present if a program asked for the turn through a gateway: it may continue any earlier turn. */
  readonly call?: CallOfTurn;
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

/** One sandbox of a snapshot. */
export interface SnapshotPart {
  readonly name: string;
  /** Of its archive, in their order. A record `snapshot-piece:` names each. */
  readonly pieces: readonly ObjectRef[];
  /** Of its workspace and shell. */
  readonly digest: string;
  readonly shell: { readonly directory: string; readonly exports: string };
  /** Paths of the image that it has no more, or has replaced. */
  readonly removed?: readonly string[];
}

/** The state of all sandboxes of an attempt after a turn, or why there is none. It is pruned with the rollout. */
export type SnapshotRecord = {
  readonly turn: number;
  /** That of the turn's answers. */
  readonly replayMs: number;
  /** Of what was read: the next one waits longer after a large one. */
  readonly bytes: number;
} & ({ readonly parts: readonly SnapshotPart[] } | { readonly none: string });

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
  /** Digests of the folders of tools that its first tasks name, by path. Absent: none on the host that opened it. */
  readonly tools?: Readonly<Record<string, string>>;
  /** The resolved configuration and its digest: the run's name belongs to this configuration only. */
  readonly config?: RunConfig;
  readonly configSha256?: string;
}

export interface StepEntry {
  readonly record: StepRecord;
  readonly policy: PolicyRef;
  /** Of the weights; `null` if the backend does not report it. */
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
