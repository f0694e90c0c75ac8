/**
 * A program that is the agent: what it reports of its turns and of its end, and the checks of a report. Reports come
 * from a trusted worker or client, but a wrong one must not fail a workflow: nothing is read before it is checked.
 * Pure, without a schema, for the workflow checks them itself.
 */

import type { FinishReason } from './finish-reason.ts';
import type { Message } from './message.ts';
import type { AgentChoice, Attempt, SandboxRef } from './stages.ts';

/** Names of the rollout's updates. */
export const REPORT_TURN = 'reportTurn';
export const REPORT_END = 'reportEnd';

/** What the workflow must know of an agent that is a program. */
export interface ProgramCard {
  /** `sandbox`: the worker starts it there. `elsewhere`: somebody else runs it, and it reports its end. */
  readonly runs: 'sandbox' | 'elsewhere';
  /** How long it may work. */
  readonly timeoutSeconds: number;
  /** True if it reports the sampled tokens of every turn; then it can be trained on. */
  readonly tokens: boolean;
  /** True if its model calls come through the gateway, which records them. Absent: they do not. */
  readonly gateway?: true;
}

/** The tokens of one model call. */
export interface ReportedTokens {
  /** Ids that the model saw after those of all earlier turns; with `reset`, all that it saw. */
  readonly appended: readonly number[];
  readonly reset?: boolean;
  readonly sampled: readonly number[];
  /** Of each sampled id, under the policy that sampled it. */
  readonly logprobs: readonly number[];
  /** Temperature of the sampling, 0 for greedy. */
  readonly temperature: number;
  /** The policy's version. Absent: that of the rollout. */
  readonly version?: number;
}

/** One turn: the model's message, then what answered it. */
export interface ReportedTurn {
  readonly attempt: number;
  /** From 1, without gaps. The first report of a number counts. */
  readonly turn: number;
  readonly messages: readonly Message[];
  readonly tokens?: ReportedTokens;
}

export interface ReportedEnd {
  readonly attempt: number;
  /** Number of turns that it has reported. */
  readonly turns: number;
  /** For the grader. Absent: the last message. */
  readonly answer?: string;
}

/** The same answer to every report of a turn, or of the end. */
export interface ReportAnswer {
  /** Turns on record. */
  readonly turns: number;
  /** How the program's work ended. Absent: it continues. */
  readonly finish?: FinishReason;
}

/** Types of the failures of the updates. */
export const REFUSED = {
  /** The report is wrong, or the rollout takes none. It must not be repeated. */
  wrong: 'ReportRefused',
  /** Repeat it soon: the rollout is not ready, or it continues in a new history. */
  early: 'ReportEarly',
  /** Its attempt was lost: the program starts again, at turn 1 of the next attempt. */
  lost: 'AttemptLost',
  /** The program's work is over. */
  over: 'ProgramOver',
} as const;

/** Reports ahead of the next turn that wait for the turns between. The server lets ten updates wait. */
export const REPORTS_AHEAD = 6;
/** Messages of one report. */
const MOST_MESSAGES = 256;
/** Characters of one report's messages as JSON, and of an answer. */
export const MOST_CHARACTERS = 256 * 1024;
/** Ids of one report, appended and sampled. */
const MOST_TOKENS = 65_536;

export interface RunProgramInput extends Attempt, SandboxRef {
  readonly agent?: AgentChoice;
  /** Milliseconds until the rollout's time is over. */
  readonly withinMs: number;
}

export interface RunProgramOutcome {
  readonly finish: FinishReason;
  readonly ms: number;
  readonly line: string;
}

export interface RecordReportsInput extends Attempt {
  /** Version of the rollout's policy. */
  readonly version: number;
  readonly turns: readonly ReportedTurn[];
  /** Present if the program has ended. */
  readonly end?: Pick<ReportedEnd, 'answer'>;
}

type Fields = Readonly<Record<string, unknown>>;

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const isCount = (value: unknown, least: number): value is number =>
  Number.isSafeInteger(value) && Number(value) >= least;

const shown = (value: unknown): string => JSON.stringify(value)?.slice(0, 80) ?? 'nothing';
export const wrong = (field: string, value: unknown, remedy: string): string =>
  `${field}: ${shown(value)} cannot be used; ${remedy}`;

function problemOfCalls(calls: unknown, at: string): string | undefined {
  if (calls === undefined) return undefined;
  if (!Array.isArray(calls)) return wrong(`${at}.toolCalls`, calls, 'give a list');
  const bad = calls.findIndex(
    (call: unknown) => !isFields(call) || typeof call['name'] !== 'string' || !isFields(call['arguments']),
  );
  return bad < 0 ? undefined : wrong(`${at}.toolCalls.${bad}`, calls[bad], 'give { name, arguments: { … } }');
}

function problemOfMessage(message: unknown, index: number): string | undefined {
  const at = `messages.${index}`;
  if (!isFields(message)) return wrong(at, message, 'give { role, content }');
  const { role, content, name } = message;
  if (index === 0 && role !== 'assistant')
    return wrong(`${at}.role`, role, 'give the model’s message, assistant, first');
  if (index > 0 && role !== 'user' && role !== 'tool' && role !== 'system')
    return wrong(`${at}.role`, role, 'give user, tool or system: each message of the model is a turn of its own');
  if (typeof content !== 'string') return wrong(`${at}.content`, content, 'give a text');
  if (role === 'tool' && typeof name !== 'string') return wrong(`${at}.name`, name, 'give the tool’s name');
  return index === 0 ? problemOfCalls(message['toolCalls'], at) : undefined;
}

function problemOfMessages(messages: unknown): string | undefined {
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MOST_MESSAGES)
    return wrong('messages', messages, `give 1 to ${MOST_MESSAGES} messages`);
  const problem = messages.map(problemOfMessage).find((one) => one !== undefined);
  if (problem !== undefined) return problem;
  const { length } = JSON.stringify(messages);
  return length > MOST_CHARACTERS
    ? wrong('messages', `${length} characters`, `give at most ${MOST_CHARACTERS}, as JSON`)
    : undefined;
}

const isIds = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.length <= MOST_TOKENS && value.every((id) => isCount(id, 0));

function problemOfTokens(tokens: unknown): string | undefined {
  if (!isFields(tokens)) return wrong('tokens', tokens, 'give { appended, sampled, logprobs, temperature }');
  const { appended, sampled, logprobs, temperature, version, reset } = tokens;
  if (!isIds(appended)) return wrong('tokens.appended', appended, `give at most ${MOST_TOKENS} token ids`);
  if (!isIds(sampled) || sampled.length === 0) return wrong('tokens.sampled', sampled, 'give the sampled token ids');
  if (appended.length + sampled.length > MOST_TOKENS)
    return wrong('tokens', `${appended.length + sampled.length} ids`, `give at most ${MOST_TOKENS}`);
  const areLogprobs =
    Array.isArray(logprobs) &&
    logprobs.length === sampled.length &&
    logprobs.every((p) => Number.isFinite(p) && p <= 0);
  if (!areLogprobs)
    return wrong('tokens.logprobs', logprobs, `give ${sampled.length} numbers of at most 0, one per id`);
  if (typeof temperature !== 'number' || !Number.isFinite(temperature) || temperature < 0)
    return wrong('tokens.temperature', temperature, 'give 0 (greedy) or more');
  if (version !== undefined && !isCount(version, 0)) return wrong('tokens.version', version, 'give a whole number');
  if (reset !== undefined && typeof reset !== 'boolean') return wrong('tokens.reset', reset, 'give true or false');
  return undefined;
}

/** What is wrong with the shape of a reported turn; `undefined`: nothing. */
export function problemOfTurn(
  report: unknown,
  { tokens: mustHaveTokens }: Pick<ProgramCard, 'tokens'>,
): string | undefined {
  if (!isFields(report)) return wrong('report', report, 'give { attempt, turn, messages }');
  const { attempt, turn, messages, tokens } = report;
  if (!isCount(attempt, 1)) return wrong('attempt', attempt, 'give the attempt’s number, from 1');
  if (!isCount(turn, 1)) return wrong('turn', turn, 'give the turn’s number, from 1');
  if (tokens === undefined && mustHaveTokens)
    return wrong('tokens', tokens, 'report the sampled ids of every turn, or set agent.options.tokens to false');
  return problemOfMessages(messages) ?? (tokens === undefined ? undefined : problemOfTokens(tokens));
}

/** What is wrong with the shape of a reported end; `undefined`: nothing. */
export function problemOfEnd(report: unknown): string | undefined {
  if (!isFields(report)) return wrong('report', report, 'give { attempt, turns, answer }');
  const { attempt, turns, answer } = report;
  if (!isCount(attempt, 1)) return wrong('attempt', attempt, 'give the attempt’s number, from 1');
  if (!isCount(turns, 0)) return wrong('turns', turns, 'give the number of reported turns');
  if (answer !== undefined && (typeof answer !== 'string' || answer.length > MOST_CHARACTERS))
    return wrong('answer', answer, `give a text of at most ${MOST_CHARACTERS} characters`);
  return undefined;
}
