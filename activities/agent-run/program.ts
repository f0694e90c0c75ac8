/**
 * A program that is the agent: it is run in the sandbox once, under one call id, and what programs report is recorded
 * under the keys of turns that were sampled.
 */

import type { Message, ParsedTurn } from '../../protocol/message.ts';
import type { RecordReportsInput, ReportedTurn, RunProgramInput, RunProgramOutcome } from '../../protocol/program.ts';
import type { ActRecord, GenerateRecord, ProgramRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { FinishReason } from '../../protocol/finish-reason.ts';
import type { ExecResult, Sandbox } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { programOfTask } from '../../tasks/program-of-task.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import { orAborted } from '../or-aborted.ts';

/** Opens the door of a sandbox: the variables that name it to the program, and the work of answering it. */
export type OpenGateway = (
  sandbox: Sandbox,
  attempt: RunProgramInput,
) => Promise<{
  readonly variables: Readonly<Record<string, string>>;
  /** Answers until the signal is aborted. Errors: those of the sandbox. */
  serve(signal: AbortSignal): Promise<void>;
}>;

interface ProgramDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  /** Absent: no program here can have a gateway. */
  readonly openGateway?: OpenGateway;
}

/** Bytes of its output that are kept, from the beginning and the end. */
const OUTPUT_BYTES = 64 * 1024;
const UNTRAINABLE = 'a program reported the turn without its tokens';

/** How it ended is the policy's own doing, whatever it did to its sandbox. */
function finishOf({ timedOut, exitCode }: ExecResult, isAllItsTime: boolean): FinishReason {
  if (timedOut) return isAllItsTime ? 'program-timeout' : 'deadline';
  return exitCode === 0 ? 'answer' : 'program-failed';
}

function recordOf(result: ExecResult, isAllItsTime: boolean): ProgramRecord {
  const { output, exitCode: code, signal, outOfMemory, droppedBytes, durationMs: ms } = result;
  return {
    finish: finishOf(result, isAllItsTime),
    answer: output.trimEnd(),
    exit: { code, signal, outOfMemory, droppedBytes, ms },
  };
}

function outcomeOf({ finish, exit }: ProgramRecord): RunProgramOutcome {
  const { code = null, signal = null, outOfMemory = false, ms = 0 } = exit ?? {};
  const end = code === null ? (signal ?? 'its time was over') : `exit code ${code}`;
  return { finish, ms, line: `${end} after ${Math.round(ms / 1000)} s${outOfMemory ? ', out of memory' : ''}` };
}

/** The end of the program, if it is on record. */
export async function programEnd(input: RunProgramInput, store: Store): Promise<RunProgramOutcome | undefined> {
  const known = await store.get<ProgramRecord>(keys.program(input));
  return known && outcomeOf(known);
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The command with the variables that name the gateway. */
function withVariables(command: string, variables: Readonly<Record<string, string>>): string {
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(value)}`);
  return [...lines, command].join('\n');
}

/**
 * Runs the program to its end, or attaches to it. Errors: those of the sandbox; `TypeError` without a command, or if
 * it asks for a gateway and this worker has none.
 */
export async function runProgram(
  sandbox: Sandbox,
  input: RunProgramInput,
  { store, tasks, openGateway }: ProgramDeps,
  signal: AbortSignal,
): Promise<RunProgramOutcome> {
  const { task, modules } = await tasks.load(input);
  const { command, timeoutSeconds = 0, gateway = false } = programOfTask(task, input.agent, modules) ?? {};
  if (command === undefined) throw new TypeError(`${attemptKey(input)}: its agent has no command`);
  await store.begin(keys.program(input));
  const ownMs = timeoutSeconds * 1000;
  const timeoutMs = Math.max(1, Math.min(ownMs, input.withinMs));
  if (gateway && openGateway === undefined) throw new TypeError(`${attemptKey(input)}: this worker has no gateway`);
  const door = gateway ? await openGateway?.(sandbox, input) : undefined;
  const call = {
    callId: `${attemptKey(input)}/program`,
    command: door ? withVariables(command, door.variables) : command,
    timeoutMs,
    outputLimit: OUTPUT_BYTES,
    fresh: true,
  };
  const over = new AbortController();
  const serving = door?.serve(AbortSignal.any([signal, over.signal]));
  // A door that cannot be served any more is a sandbox that cannot be reached: the program's own call says so too.
  serving?.catch(() => undefined);
  const result = await orAborted(() => sandbox.exec(call), signal).finally(() => over.abort());
  // An execution before this one may have had more time left.
  const isAllItsTime = timeoutMs === ownMs || result.durationMs >= ownMs;
  return outcomeOf(await store.putOnce<ProgramRecord>(keys.program(input), recordOf(result, isAllItsTime)));
}

function parsedOf(message: Message | undefined): ParsedTurn {
  if (message?.role !== 'assistant') return { kind: 'no-call', content: message?.content ?? '' };
  const { content, toolCalls: calls = [] } = message;
  return calls.length === 0 ? { kind: 'no-call', content } : { kind: 'calls', content, calls };
}

function turnOf({ messages, tokens }: ReportedTurn, version: number): GenerateRecord {
  const parsed = parsedOf(messages[0]);
  const { appended = [], reset = false, sampled = [], logprobs = [], temperature } = tokens ?? {};
  return {
    version: tokens?.version ?? version,
    appended,
    reset,
    sampled,
    logprobs,
    ...(temperature !== undefined && { temperature }),
    end: 'stop',
    parsed,
    command: { do: parsed.kind === 'calls' || messages.length > 1 ? 'act' : 'answer' },
    reported: true,
    ...(tokens === undefined && { untrainable: UNTRAINABLE }),
  };
}

/** Records what a program reported. What is on record stays. */
export async function recordReports(input: RecordReportsInput, { store }: Pick<ProgramDeps, 'store'>): Promise<void> {
  const { run, rollout, attempt, version, turns, end } = input;
  for (const reported of turns) {
    const { turn, messages } = reported;
    const answers = messages.slice(1);
    await store.putOnce<GenerateRecord>(keys.generate(input, turn), turnOf(reported, version));
    if (answers.length > 0) await store.putOnce<ActRecord>(keys.act(input, turn), { messages: answers });
    const at = new Date().toISOString();
    await store.append([{ run, rollout, attempt, event: 'turn', at, detail: String(turn) }]);
  }
  if (end) await store.putOnce<ProgramRecord>(keys.program(input), { finish: 'answer', ...end });
}
