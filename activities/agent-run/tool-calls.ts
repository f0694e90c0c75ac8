/**
 * A turn's tool calls: each has one journal key, in whichever sandbox it runs, and one recorded answer. In a sandbox
 * that replaces a lost one, answered calls are run again, and their answers stay as they were.
 */

import { createHash } from 'node:crypto';
import type { Message, ToolCall } from '../../protocol/message.ts';
import { AFTER_FINISH, NOT_CALLED, NOT_FINISHED } from '../../agents/tools/finish.ts';
import { onlyReads, runToolCall } from '../../agents/tools/run-tool-call.ts';
import type { Observation } from '../../agents/tools/tool.ts';
import type { Toolbox } from '../../agents/tools/toolbox.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import type { Store } from '../../store/store.ts';
import { classOfError } from '../../protocol/failure-policy.ts';
import type { Place } from '../../protocol/frames.ts';
import type { Asking, Attempt } from '../../protocol/stages.ts';
import type { AskDeps } from '../ask.ts';
import { AnswerMismatch, RestoreFailed, ToolFailed } from '../failures.ts';
import { blameOwnCode } from '../own-code.ts';
import type { ActRecord, AnswerRecord, GenerateRecord, RestoredRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import { lastActBefore } from '../../store/read-records.ts';
import { MessageBudget, timed } from './message-budget.ts';
import { OUTCOME_UNKNOWN, runInWorker } from './run-in-worker.ts';
import { withImages } from './rollout-objects.ts';
import type { Secrets } from './secrets.ts';
import { replayMsOf } from './snapshots.ts';

/** Where and for how long an attempt's calls run. */
export interface Acting {
  readonly attempt: Attempt & Asking;
  /** The tools of the agent whose turn it is. */
  readonly toolsAt: (place: Place) => Promise<Toolbox>;
  /** `undefined` if the task has none. */
  readonly sandbox: Sandbox | undefined;
  readonly store: Store;
  /** How tools that run in the worker ask judges. */
  readonly asking: AskDeps;
  readonly secrets: Secrets;
  /** Aborted if the answers no longer count. */
  readonly signal: AbortSignal;
  /** Runs the environment's recorded step of a turn again. */
  readonly repeatStep: (turn: number) => Promise<void>;
  readonly toolTimeoutSeconds: number;
  /** Milliseconds until the rollout's deadline; absent: the deadline is far away. */
  readonly withinMs?: number | undefined;
}

interface TurnCalls {
  /** The calls before `finish`, or before the call of a sub-agent, which do not run themselves; else all. */
  readonly run: readonly ToolCall[];
  /** That call and those after it. */
  readonly rest: readonly ToolCall[];
  /** The tools of the agent whose calls they are. */
  readonly tools: Toolbox;
}

async function callsOf(
  { store, attempt, toolsAt }: Pick<Acting, 'attempt' | 'store' | 'toolsAt'>,
  turn: number,
): Promise<TurnCalls> {
  const key = keys.generate(attempt, turn);
  const record = await store.get<GenerateRecord>(key);
  if (record?.parsed.kind !== 'calls') throw new Error(`${key} holds no tool calls`);
  const { calls } = record.parsed;
  // If the agent does not end at `finish`, it is a call like the others: one of a tool that the task does not offer.
  const { command } = record;
  const last =
    command?.do === 'act'
      ? -1
      : command?.do === 'delegate'
        ? (command.call ?? 0)
        : calls.findIndex((call) => call.name === 'finish');
  const end = last < 0 ? calls.length : last;
  return { run: calls.slice(0, end), rest: calls.slice(end), tools: await toolsAt(record) };
}

/** One agent's acting. */
type AgentActing = Acting & Pick<TurnCalls, 'tools'>;

interface Ran {
  readonly observation: Observation;
  readonly ms: number;
  /** Absent if it ran in none. */
  readonly sandbox?: string;
}

/** True if the call runs, and changes what no sandbox holds. */
function isOutside(call: ToolCall, tools: Toolbox): boolean {
  const tool = tools.get(call.name);
  return tool?.effect === 'outside' && tool.validate(call.arguments) === undefined;
}

/** True if the call runs again in a sandbox that replaces a lost one. */
const isReplayed = (call: ToolCall, tools: Toolbox): boolean =>
  (tools.get(call.name)?.effect ?? 'sandbox') === 'sandbox';

/** An error with a class of its own, such as a lost sandbox, is no fault of the tool. */
function blameTool(error: unknown, { name }: ToolCall): never {
  if (error instanceof Error && classOfError(error.name) !== 'internal') throw error;
  return blameOwnCode(error, `the tool ${name}`, (message) => new ToolFailed(message));
}

/** True if the error says so: the call may be made again, whatever its tool changes. */
const hadNoEffect = (error: unknown): boolean => error instanceof Error && 'unsent' in error && error.unsent === true;

async function run(
  call: ToolCall,
  turn: number,
  index: number,
  kind: 'tool' | 'replay',
  acting: AgentActing,
  timeoutMs = acting.toolTimeoutSeconds * 1000,
): Promise<Ran> {
  const { attempt, tools, sandbox, store, asking, secrets, signal } = acting;
  const callId = `${attemptKey(attempt)}/${turn}/${index}`;
  const execution = kind === 'tool' ? `tool:${callId}` : `replay:${sandbox?.id ?? ''}/${turn}/${index}`;
  const outside = isOutside(call, tools);
  // Executions that have begun, and are known to have had no effect.
  const unsent = outside ? await store.begun(`${execution}/unsent`) : 0;
  const began = outside && (await store.begun(execution)) > unsent;
  // Of two executions at once, the second one is not the first to begin either.
  if (began || ((await store.begin(execution)) > unsent + 1 && outside))
    return { observation: { content: OUTCOME_UNKNOWN }, ms: 0 };
  const tool = tools.get(call.name);
  if (tool?.runs === 'worker')
    return runInWorker({ call, tool, attempt, turn, index, callId, timeoutMs, store, asking, secrets, signal }).catch(
      async (error: unknown) => {
        if (outside && hadNoEffect(error)) await store.begin(`${execution}/unsent`);
        return blameTool(error, call);
      },
    );
  let ms = 0;
  const clocked =
    sandbox &&
    timed(sandbox, (more) => {
      ms += more;
    });
  const context = { callId, timeoutMs };
  const observation = await runToolCall(call, [...tools.keys()], clocked, context, tools).catch((error: unknown) =>
    blameTool(error, call),
  );
  return { observation: await withImages(observation, attempt, store), ms, ...(sandbox && { sandbox: sandbox.id }) };
}

function messageOf({ role, name, content, images }: AnswerRecord): Message {
  return { role, name, content, ...(images && { images }) };
}

/** The digest of a call; the order of its arguments does not matter. */
function digestOf({ name, arguments: given }: ToolCall): string {
  const sorted = Object.entries(given).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([name, sorted]))
    .digest('hex');
}

/** Errors: `AnswerMismatch` if the record answers another call. */
async function knownAnswer(
  call: ToolCall,
  turn: number,
  index: number,
  { attempt, store }: Pick<Acting, 'attempt' | 'store'>,
): Promise<AnswerRecord | undefined> {
  const key = keys.answer(attempt, turn, index);
  const known = await store.get<AnswerRecord>(key);
  const isOther =
    known !== undefined && (known.name !== call.name || (known.call !== undefined && known.call !== digestOf(call)));
  if (isOther) throw new AnswerMismatch(key, known.name, call.name);
  return known;
}

/** The answer is recorded before the next call starts: a repeated view would see what later calls have changed. */
async function answerOf(
  call: ToolCall,
  turn: number,
  index: number,
  budget: MessageBudget,
  acting: AgentActing,
): Promise<AnswerRecord> {
  const { attempt, tools, sandbox, store } = acting;
  const key = keys.answer(attempt, turn, index);
  const known = await knownAnswer(call, turn, index, acting);
  // The journal of the new sandbox knows which calls were replayed already.
  const isElsewhere = sandbox !== undefined && (known?.sandbox ?? sandbox.id) !== sandbox.id;
  if (known && isElsewhere && isReplayed(call, tools)) await run(call, turn, index, 'replay', acting);
  if (known) return known;
  const base = { role: 'tool', name: call.name, call: digestOf(call) } as const;
  const refused = budget.refused(index);
  if (refused) return store.putOnce<AnswerRecord>(key, { ...base, ...refused, notRun: true });
  const { observation, ...ran } = await run(call, turn, index, 'tool', acting, budget.timeoutMs);
  return store.putOnce<AnswerRecord>(key, { ...base, ...observation, ...ran });
}

/** True if the calls may run at once: none changes anything, depends on another one, or uses the sandbox. */
function mayOverlap({ run: calls, tools }: TurnCalls): boolean {
  return calls.every(({ name }) => {
    const tool = tools.get(name);
    return tool?.runs === 'worker' && tool.effect === 'none' && !tool.inOrder;
  });
}

/** The answers in the order of the calls, and the milliseconds that they took together. */
async function answersOf(
  calls: TurnCalls,
  turn: number,
  acting: Acting,
): Promise<{ readonly answers: readonly AnswerRecord[]; readonly ms: number }> {
  const budget = new MessageBudget(acting.toolTimeoutSeconds, acting.withinMs);
  const answer = (call: ToolCall, index: number) =>
    answerOf(call, turn, index, budget, { ...acting, tools: calls.tools });
  if (mayOverlap(calls)) {
    // All end before a failure is reported: a retry would meet the others at work.
    const ended = await Promise.allSettled(calls.run.map(answer));
    const answers = ended.map((one) => {
      if (one.status === 'rejected') throw one.reason;
      return one.value;
    });
    return { answers, ms: Math.max(0, ...answers.map(({ ms = 0 }) => ms)) };
  }
  const answers: AnswerRecord[] = [];
  for (const [index, call] of calls.run.entries()) {
    const given = await answer(call, index);
    budget.spend(given.ms ?? 0);
    answers.push(given);
  }
  return { answers, ms: answers.reduce((sum, { ms = 0 }) => sum + ms, 0) };
}

/**
 * If a call was refused, the policy has not finished: every call of its message is answered, since it continues from
 * there.
 */
function answeredIn({ rest }: TurnCalls, answers: readonly AnswerRecord[]): Pick<ActRecord, 'messages' | 'unfinished'> {
  const messages = answers.map(messageOf);
  if (rest.length === 0 || !answers.some(({ refused }) => refused)) return { messages };
  const notTaken = rest.map(({ name }, i): Message => ({
    role: 'tool',
    name,
    content: name === 'finish' && i === 0 ? NOT_FINISHED : i === 0 ? NOT_CALLED : AFTER_FINISH,
  }));
  return { messages: [...messages, ...notTaken], unfinished: true };
}

function ranIn(answers: readonly AnswerRecord[]): Pick<ActRecord, 'sandbox'> {
  const sandbox = answers.findLast((answer) => answer.sandbox !== undefined)?.sandbox;
  return sandbox === undefined ? {} : { sandbox };
}

type Left = Pick<ActRecord, 'digest' | 'untouched'>;

/** The state of the workspace after the turn; calls that only read do not change it. */
async function leftBy(
  calls: readonly ToolCall[],
  turn: number,
  sandbox: Sandbox,
  { attempt, tools, store }: AgentActing,
): Promise<Left> {
  const { digest: known, untouched }: Left = (await lastActBefore(turn, attempt, store)) ?? { untouched: true };
  const hasRead = calls.every((call) => onlyReads(call, [...tools.keys()], tools));
  if (untouched && hasRead) return { untouched };
  // If a workspace was too large for a digest once, no further digest is tried.
  if (hasRead || (!untouched && known === undefined)) return known === undefined ? {} : { digest: known };
  const digest = await workspaceDigest(sandbox, `${attemptKey(attempt)}/${turn}/digest`);
  return digest === undefined ? {} : { digest };
}

/**
 * Runs the calls without an answer, and records the turn. `isLast` returns, for a turn that is `unfinished` or not,
 * whether nothing runs after it: then the state of the workspace is not recorded. In a task without a sandbox, tools
 * that need one refuse.
 */
export async function actTurn(
  acting: Acting,
  turn: number,
  isLast: (answered: Pick<ActRecord, 'unfinished'>) => Promise<boolean>,
): Promise<ActRecord> {
  const { attempt, sandbox, store } = acting;
  const calls = await callsOf(acting, turn);
  const { answers, ms: spent } = await answersOf(calls, turn, acting);
  const answered = answeredIn(calls, answers);
  let ms = spent;
  const isOver = await isLast(answered);
  let left: Left & Pick<ActRecord, 'sandbox'> = {};
  if (sandbox !== undefined) {
    // The time to digest the workspace counts as the policy's own too.
    const clocked = timed(sandbox, (more) => {
      ms += more;
    });
    const ran = calls.run.filter((_, index) => !answers[index]?.notRun);
    left = {
      sandbox: sandbox.id,
      ...(isOver ? {} : await leftBy(ran, turn, clocked, { ...acting, tools: calls.tools })),
    };
  }
  const replayMs = sandbox === undefined || isOver ? 0 : await replayMsOf(turn, ms, attempt, store);
  return store.putOnce<ActRecord>(keys.act(attempt, turn), {
    ...answered,
    ...(ms > 0 && { ms }),
    ...(replayMs > 0 && { replayMs }),
    ...left,
  });
}

/** Records the turn after which the artifact was collected. Its answers are recorded; the sandbox may be gone. */
export async function recordLastTurn(
  { attempt, store, toolsAt }: Pick<Acting, 'attempt' | 'store' | 'toolsAt'>,
  turn: number,
): Promise<ActRecord> {
  const calls = await callsOf({ attempt, store, toolsAt }, turn);
  const answers = await Promise.all(calls.run.map((call, index) => knownAnswer(call, turn, index, { attempt, store })));
  const known = answers.filter((answer) => answer !== undefined);
  if (known.length < answers.length)
    throw new Error(`${keys.collect(attempt)} is recorded without all answers of turn ${turn}`);
  return store.putOnce<ActRecord>(keys.act(attempt, turn), { ...answeredIn(calls, known), ...ranIn(known) });
}

/** After calls that only read there is no digest: equal answers show that the workspace is the same. */
function sameAnswer(record: ActRecord, index: number, content: string): boolean {
  return !record.untouched || record.messages[index]?.content === content;
}

/**
 * Runs the recorded calls of `turns` again, those after turn `after`, and compares the workspace after the last one.
 * Errors: `RestoreFailed` if the workspace differs, or if its digest is not known; `AnswerMismatch`.
 */
export async function replayTurns(
  acting: Acting,
  turns: ReadonlyArray<readonly [turn: number, record: ActRecord]>,
  after = 0,
): Promise<void> {
  const last = turns.at(-1);
  if (!last) return;
  const { attempt, sandbox } = acting;
  const [lastTurn, { digest, untouched }] = last;
  if (digest === undefined && !untouched)
    throw new RestoreFailed(`${attemptKey(attempt)}: turn ${lastTurn} has no digest to compare with`);
  for (const [turn, record] of turns) {
    if (turn <= after) continue;
    if (record.state !== undefined) {
      await acting.repeatStep(turn);
      continue;
    }
    const { run: calls, tools } = await callsOf(acting, turn);
    for (const [index, call] of calls.entries()) {
      if ((await knownAnswer(call, turn, index, acting))?.notRun || !isReplayed(call, tools)) continue;
      const { observation } = await run(call, turn, index, 'replay', { ...acting, tools });
      if (!sameAnswer(record, index, observation.content))
        throw new RestoreFailed(
          `${attemptKey(attempt)}: call ${index} of turn ${turn}, which only reads, has another answer in the ` +
            'new sandbox',
        );
    }
  }
  if (digest === undefined || sandbox === undefined) return;
  const now = await workspaceDigest(sandbox, `${attemptKey(attempt)}/${lastTurn}/digest-replayed`);
  if (now !== digest)
    throw new RestoreFailed(
      `${attemptKey(attempt)}: after turn ${lastTurn} the workspace had the digest ${digest.slice(0, 12)}, ` +
        `and after the replay it has ${now?.slice(0, 12) ?? 'none'}`,
    );
}

/** True if the turn's calls ran in this sandbox, or were run again in it. */
export async function isHere(sandbox: string, turn: number, record: ActRecord, store: Store): Promise<boolean> {
  if ((record.sandbox ?? sandbox) === sandbox) return true;
  const restored = await store.get<RestoredRecord>(keys.restored(sandbox));
  return restored !== undefined && restored.turn >= turn;
}
