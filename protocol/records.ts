/** What activities write into the store: the keys, and the shape under each key. Keys name what ran, never who ran it. */

import type { Info } from '@temporalio/activity';
import type { FailureClass, FinishReason } from './finish-reason.ts';
import type { Message, ParsedTurn } from './message.ts';
import type { ChatAnswer, Offer } from './endpoint.ts';
import type { GenerateCost } from './sampling.ts';
import type { AdmissionState } from './admission.ts';
import type { PolicyRef } from './policy.ts';
import type { RunConfig } from './run-config.ts';
import type { Attempt } from './stages.ts';
import type { EvaluationRecord, StepRecord } from './step-record.ts';
import type { UpdateOutcome } from './update.ts';

/** Turns sort in byte order. */
export function padded(n: number): string {
  return String(n).padStart(5, '0');
}

export function attemptKey({ rollout, attempt }: Pick<Attempt, 'rollout' | 'attempt'>): string {
  return `${rollout}#${attempt}`;
}

/** The sandbox of an attempt, or the one that took its place after it was lost so many times. */
export function sandboxKey(attempt: Pick<Attempt, 'rollout' | 'attempt'>, restore = 0): string {
  return restore === 0 ? attemptKey(attempt) : `${attemptKey(attempt)}~${restore}`;
}

type Scheduled = Pick<Info, 'activityType' | 'workflowExecution' | 'activityId'>;

export const keys = {
  generate: (attempt: Attempt, turn: number) => `generate:${attemptKey(attempt)}/${padded(turn)}`,
  act: (attempt: Attempt, turn: number) => `act:${attemptKey(attempt)}/${padded(turn)}`,
  answer: (attempt: Attempt, turn: number, index: number) => `answer:${attemptKey(attempt)}/${padded(turn)}/${index}`,
  /** What all answers of the attempt begin with. */
  answers: (attempt: Attempt) => `answer:${attemptKey(attempt)}/`,
  restored: (sandbox: string) => `restored:${sandbox}`,
  collect: (attempt: Attempt) => `collect:${attemptKey(attempt)}`,
  verdict: (attempt: Attempt) => `verdict:${attemptKey(attempt)}`,
  outcome: (rollout: string) => `outcome:${rollout}`,
  /** Of a batch, by its workflow id, that has rolled out so many groups. */
  manifest: (batch: string, groups: number) => `manifest:${batch}#${padded(groups)}`,
  /** What all manifests of the batch begin with. */
  manifests: (batch: string) => `manifest:${batch}#`,
  end: (rollout: string) => `end:${rollout}`,
  update: (run: string, step: number) => `update:${run}/${padded(step)}`,
  step: (run: string, step: number) => `step:${run}/${padded(step)}`,
  evaluation: (run: string, step: number) => `evaluation:${run}/${padded(step)}`,
  run: (run: string) => `run:${run}`,
  changes: (run: string, key: string) => `changes:${run}/${key}`,
  /** Of a run that went on after its first end, `number` counts them. */
  runEnd: (run: string, number = 1) => (number === 1 ? `run-end:${run}` : `run-end:${run}/${padded(number)}`),
  /** That the run went on after its end of this number. */
  runAgain: (run: string, number: number) => `run-again:${run}/${padded(number)}`,
  /** What is left of a pruned rollout's turns. */
  trajectory: (rollout: string) => `trajectory:${rollout}`,
  /** That a run, or an eval as `eval/ID`, has no records of its turns any more. */
  pruned: (name: string) => `pruned:${name}`,
  /** Executions of one scheduled activity that ended without a result, as far as they could say so; found by the workflow that they belong to. */
  tries: ({ activityType, workflowExecution, activityId }: Scheduled) =>
    `tries:${workflowExecution?.workflowId ?? ''}#${activityType}/${workflowExecution?.runId ?? ''}/${activityId}/`,
  oneTry: (scheduled: Scheduled & Pick<Info, 'attempt'>) => `${keys.tries(scheduled)}${padded(scheduled.attempt)}`,
  /** `digest` is of the endpoint's settings that decide how it is asked. */
  offer: (run: string, digest: string) => `offer:${run}/${digest}`,
} as const;

/** Of records whose keys begin with their run's name. */
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

/** The run, or the eval as `eval/ID`, that a record of this key belongs to; `undefined` where it is of neither. */
export function runOfKey(key: string): string | undefined {
  // Executions say before a record's key what they are.
  const [, kinds = '', rest = ''] = /^((?:[a-z-]+:)+)(.*)$/su.exec(key) ?? [];
  const kind = kinds.split(':').at(-2) ?? '';
  const [first, second] = rest.split(/[/#]/u);
  if (first === 'eval') return `eval/${second}`;
  if (kind.startsWith('eval-') || kind === 'eval') return `eval/${first}`;
  if (RUN_KINDS.has(kind)) return first;
  return first === 'train' ? second : undefined;
}

/**
 * Where the result of an execution in the journal is recorded; `undefined` for the making of a sandbox, whose end is
 * the event `started`.
 */
export function resultKeyOf(execution: string): string | undefined {
  const [, kind, rest = ''] = /^([a-z]+):(.*)$/su.exec(execution) ?? [];
  if (kind === 'model') return rest;
  if (kind === 'collect' || kind === 'update') return execution;
  if (kind === 'reward') return `verdict:${rest}`;
  const [, attempt = '', turn, index] = /^(.*)\/(\d+)\/(\d+)$/su.exec(rest) ?? [];
  return kind === 'tool' ? `answer:${attempt}/${padded(Number(turn))}/${index}` : undefined;
}

/** One model call: what was appended to the context, what was sampled, what it was read as. */
export interface GenerateRecord {
  readonly version: number;
  /** Of the policy's files, where a directory's policy sampled. */
  readonly digest?: string;
  /** Ids appended to all earlier ids (prompt or observation); the whole context where `reset` is true. */
  readonly appended: readonly number[];
  /** The template rewrote the past: the ids start anew, and so does a training sequence. */
  readonly reset: boolean;
  readonly sampled: readonly number[];
  readonly logprobs: readonly number[];
  /** That it was sampled at, 0 where greedily; absent where nothing was, and in chat. */
  readonly temperature?: number;
  readonly end: 'stop' | 'length' | 'context-full' | 'refused';
  readonly parsed: ParsedTurn;
  /** What the policy is told before its next turn; where it made calls, the tools answer instead. */
  readonly hint?: string;
  /** Where an endpoint sampled: which one, and how it was asked. */
  readonly endpoint?: { readonly baseUrl: string; readonly model: string; readonly offer: Offer };
  /** The text that ended the turn, where no token did: it belongs to what was said. */
  readonly stopText?: string;
  /** Where an engine of ours sampled. */
  readonly cost?: GenerateCost;
  /** Why no transition can be made of this turn; absent where one can. */
  readonly untrainable?: string;
  /** What was said in chat, in OpenAI's form: there are no ids then. */
  readonly chat?: Pick<ChatAnswer, 'turn' | 'usage'>;
}

/** One tool's answer, whether the call was refused, and the sandbox that it ran in. */
export type AnswerRecord = Extract<Message, { role: 'tool' }> & {
  readonly refused?: true;
  /** Absent where it ran in none. */
  readonly sandbox?: string;
  /** It had no place in its message any more: it was never run, and is not run again. */
  readonly notRun?: true;
  /** How long its commands ran, as the sandbox counts; absent: no time. */
  readonly ms?: number;
  /** Of the call that it answers. */
  readonly call?: string;
};

/** What the tools answered in one turn. */
export interface ActRecord {
  readonly messages: readonly Message[];
  /** The policy called `finish`, and is told that a call before it was refused: the rollout goes on. */
  readonly unfinished?: true;
  /** How long its commands ran, and the look at what they left, as the sandbox counts; absent: no time. */
  readonly ms?: number;
  /** That the calls ran in. */
  readonly sandbox?: string;
  /** Of the workspace and the shell after the turn; absent where it could not be told, where the sandbox is `untouched`, and where nothing ran after it. */
  readonly digest?: string;
  /** The attempt's calls have only read so far: the sandbox is as it was prepared. */
  readonly untouched?: true;
}

/** A sandbox that took a lost one's place. */
export interface RestoredRecord {
  /** The last turn whose calls were run again in it; 0: none. */
  readonly turn: number;
}

export interface PrunedRecord {
  readonly at: string;
}

/** How a rollout ended, once and for all. */
export interface OutcomeRecord {
  readonly rollout: string;
  readonly task: string;
  readonly attempt: number;
  readonly turns: number;
  readonly status: 'graded' | 'failed';
  readonly reward: number | null;
  readonly passed: boolean;
  readonly finish: FinishReason | null;
  readonly failure: FailureClass | null;
  readonly reason: string;
}

/**
 * What a batch has rolled out, written when all of it has ended: who needs its rollouts is handed this, by the batch's
 * name. One that is rolled out again may draw more groups than before, of which the earlier ones are the first: the
 * manifest with the most groups stands. How a rollout ended is under `keys.outcome`, what it did under the keys of its attempt.
 */
export interface BatchManifest {
  readonly run: string;
  /** Workflow id. */
  readonly batch: string;
  /** In the order of the batch's tasks. */
  readonly groups: ReadonlyArray<{ readonly task: string; readonly rollouts: readonly string[] }>;
}

export interface RunRecord {
  readonly run: string;
  readonly runDir: string;
  readonly seed: number;
  readonly startedAt: string;
  readonly policy: { readonly base: string; readonly parameters: number; readonly vocabulary: number };
  /** Directory that a critic begins as, where one is trained. */
  readonly critic?: { readonly base: string };
  readonly task: { readonly name: string; readonly train: number; readonly heldOut: number };
  /** As resolved, and its digest: the name stands for this configuration alone. */
  readonly config?: RunConfig;
  readonly configSha256?: string;
}

export interface StepEntry {
  readonly record: StepRecord;
  readonly policy: PolicyRef;
  readonly sha256: string;
  readonly keep: boolean;
  /** Where rollouts and updates overlap: what had begun and was not trained on. */
  readonly overlap?: AdmissionState;
}

/** Names of the batches that a step's groups come from. */
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
  /** Temporal's run id of the execution that said so. */
  readonly execution?: string;
}

/** That a run which had failed or was cancelled goes on. */
export interface RunAgain {
  readonly at: string;
  /** Temporal's run id of the execution that begins it again. */
  readonly execution?: string;
}

/** `metrics`: what else was measured, by SkyRL's names where it has one; it stays in the store, out of histories. */
export interface UpdateEntry extends UpdateOutcome {
  /** Where rollouts and updates overlap: what was trained on. */
  readonly units?: readonly number[];
  readonly metrics?: Readonly<Record<string, number>>;
}

/** An execution that ended without a result. `spared`: it was cancelled, or ended with its worker, which was being stopped. */
export interface TryRecord {
  readonly end: 'failed' | 'spared';
  readonly error: string;
  readonly message: string;
  readonly at: string;
  /** Milliseconds spent by then of the patience that is had with such failures; absent: none is. */
  readonly spentMs?: number;
}

/** What the policy said in a turn, as a message. */
export function spoken({ parsed }: GenerateRecord): Message {
  return parsed.kind === 'calls'
    ? { role: 'assistant', content: parsed.content, toolCalls: parsed.calls }
    : { role: 'assistant', content: parsed.content };
}

/** What the policy is shown after a turn: a hint, or the tools' answers. */
export function answerTo({ hint }: GenerateRecord, act: ActRecord | undefined): readonly Message[] {
  return hint === undefined ? (act?.messages ?? []) : [{ role: 'user', content: hint }];
}

/** Tokens that a turn sampled: its ids, or what the server counted. */
export function sampledTokensOf({ sampled, chat }: GenerateRecord): number {
  return chat ? (chat.usage?.completionTokens ?? 0) : sampled.length;
}

/** Tokens of the context after `turns`: of its ids, or as the server counted. */
export function contextTokensAfter(turns: readonly GenerateRecord[]): number {
  const usage = turns.findLast(({ chat }) => chat?.usage)?.chat?.usage;
  return usage ? usage.promptTokens + usage.completionTokens : contextAfter(turns).length;
}

/** All ids that the model had seen and said after `turns`. */
export function contextAfter(turns: readonly GenerateRecord[]): number[] {
  let ids: number[] = [];
  for (const { appended, reset, sampled } of turns) ids = [...(reset ? [] : ids), ...appended, ...sampled];
  return ids;
}
