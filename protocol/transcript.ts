/**
 * What an attempt's agents and their environment said, and the ids of their contexts, from the records of its turns.
 */

import type { Command } from './command.ts';
import { callingTurn, type Place, sameAgent, sameContext } from './frames.ts';
import type { Message } from './message.ts';
import type { ActRecord, GenerateRecord } from './records.ts';

/** The records of an attempt. */
export interface Recorded {
  readonly turns: readonly GenerateRecord[];
  /** By turn, from 1. */
  readonly acts: ReadonlyMap<number, ActRecord>;
}

/** A message with the agent that wrote or received it. */
export type Said = Message & Place;

/** The policy's answer of a turn, as a message. */
export function spoken({ parsed }: GenerateRecord): Message {
  return parsed.kind === 'calls'
    ? { role: 'assistant', content: parsed.content, toolCalls: parsed.calls }
    : { role: 'assistant', content: parsed.content };
}

const user = (content: string): Message => ({ role: 'user', content });

/** What an agent reads first in a segment that a summary opened. */
export function withSummary(opening: readonly Message[], summary: string): readonly Message[] {
  const text = `Summary of the work so far:\n${summary}\n\nContinue from there.`;
  const last = opening.at(-1);
  // Some chat templates refuse two messages of the user in a row.
  return last?.role === 'user'
    ? [...opening.slice(0, -1), user(`${last.content}\n\n${text}`)]
    : [...opening, user(text)];
}

/** The answer that a turn gives: the argument of `finish`, or its text. */
export function answerIn({ parsed }: GenerateRecord): string {
  const finish = parsed.kind === 'calls' ? parsed.calls.find(({ name }) => name === 'finish') : undefined;
  if (finish === undefined) return parsed.content;
  const given = finish.arguments['answer'];
  return typeof given === 'string' ? given : given === undefined ? '' : JSON.stringify(given);
}

/** True if the turn is its agent's last one, whatever else the rollout does. */
function isLastOfAgent({ command, end, parsed }: GenerateRecord, act: ActRecord | undefined): boolean {
  if (end !== 'stop' || command === undefined || command.do === 'answer') return true;
  const runsCalls = parsed.kind === 'calls' && parsed.calls.findIndex(({ name }) => name === 'finish') > 0;
  return command.do === 'finish' && !act?.unfinished && (act !== undefined || !runsCalls);
}

const CUT: Readonly<Record<GenerateRecord['end'], string>> = {
  stop: 'it gave none',
  length: 'its message was too long',
  context: 'its context was full',
  refused: 'it refused',
};

/** The text after the policy's reasoning. */
export function afterReasoning(text: string): string {
  const end = text.lastIndexOf('</think>');
  return (end < 0 ? text : text.slice(end + '</think>'.length)).trim();
}

/** What the caller of a sub-agent receives. */
function report(last: GenerateRecord, name: string): string {
  const answer = last.end === 'stop' ? afterReasoning(answerIn(last)) : '';
  return answer || `The agent ${name} ended without an answer: ${CUT[last.end]}.`;
}

/** The answer of the sub-agent that `turn` called, to the agent of `turn`. Empty while the sub-agent works. */
function fromSubAgent(turn: number, { turns, acts }: Recorded): readonly Message[] {
  const record = turns[turn - 1];
  if (record?.command?.do !== 'delegate' || acts.get(turn)?.unfinished) return [];
  const { name, call } = record.command;
  const place = { agentPath: [...(record.agentPath ?? []), `${name}@${turn}`] };
  const index = turns.findLastIndex((one) => sameAgent(one, place));
  const last = turns[index];
  if (last === undefined || !isLastOfAgent(last, acts.get(index + 1))) return [];
  const content = report(last, name);
  const calls = record.parsed.kind === 'calls' && call !== undefined ? record.parsed.calls.slice(call) : [];
  if (calls.length === 0) return [user(`Answer of the agent ${name}:\n${content}`)];
  return calls.map((one, i) => ({
    role: 'tool',
    name: one.name,
    content: i === 0 ? content : `Error: not run, since it comes after ${calls[0]?.name ?? name}.`,
  }));
}

/** The agent's own message after a turn. A turn with calls receives it as the answer to the first one. */
function fromAgent({ command, parsed }: GenerateRecord): readonly Message[] {
  if (command === undefined || !('message' in command) || command.message === undefined) return [];
  const { message } = command;
  if (command.do !== 'reply' || parsed.kind !== 'calls') return [user(message)];
  return parsed.calls.map(({ name }, i) => ({ role: 'tool', name, content: i === 0 ? message : 'Error: not run.' }));
}

/**
 * The messages to the agent of `turn` before its next turn: of tools, the environment, a sub-agent, the agent itself.
 */
export function answerTo(turn: number, recorded: Recorded): readonly Message[] {
  const record = recorded.turns[turn - 1];
  if (record === undefined) return [];
  return [...(recorded.acts.get(turn)?.messages ?? []), ...fromSubAgent(turn, recorded), ...fromAgent(record)];
}

/** The messages with their place. */
function at({ agentPath, segment }: Place, messages: readonly Message[]): readonly Said[] {
  const place = { ...(agentPath && { agentPath }), ...(segment !== undefined && { segment }) };
  return messages.map((message) => ({ ...message, ...place }));
}

/** The messages that open the agent's context at `turn`, if the turn is the first one in it; not those of the task. */
export function openedAt(turn: number, { turns }: Recorded): readonly Said[] {
  const record = turns[turn - 1];
  const name = record?.agentPath?.at(-1);
  if (record === undefined || turns.slice(0, turn - 1).some((one) => sameContext(one, record))) return [];
  if ((record.segment ?? 1) > 1) {
    const command = summaryBefore(turn, turns);
    return command === undefined ? [] : at(record, command.opening ?? withSummary([], command.summary));
  }
  const command = name === undefined ? undefined : turns[callingTurn(name) - 1]?.command;
  return command?.do === 'delegate' ? at(record, command.messages) : [];
}

/** The summary that opened the segment of `turn`. `undefined` if none did. */
function summaryBefore(turn: number, turns: readonly GenerateRecord[]): Summarise | undefined {
  const record = turns[turn - 1];
  const last = record && turns.slice(0, turn - 1).findLast((one) => sameAgent(one, record));
  return last && summaryIn(last);
}

type Summarise = Extract<Command, { do: 'summarise' }>;

/** The turn's command, if it opens a segment. */
export const summaryIn = ({ command }: GenerateRecord): Summarise | undefined =>
  command?.do === 'summarise' ? command : undefined;

/** The messages after `turn`: to its agent, and to the caller of an agent whose last turn it is. */
export function messagesAfter(turn: number, recorded: Recorded, isLast = false): readonly Said[] {
  const { turns, acts } = recorded;
  const record = turns[turn - 1];
  if (record === undefined) return [];
  const answers = at(record, acts.get(turn)?.messages ?? []);
  // After the last turn nobody reads the rest.
  if (isLast) return answers;
  const name = record.agentPath?.at(-1);
  const calling = name === undefined || !isLastOfAgent(record, acts.get(turn)) ? 0 : callingTurn(name);
  return [
    ...answers,
    ...at(record, fromAgent(record)),
    ...at(turns[calling - 1] ?? {}, fromSubAgent(calling, recorded)),
  ];
}

/** The messages of an attempt after the task's own, in the order of its turns. */
export function saidIn(recorded: Recorded): Said[] {
  const { turns } = recorded;
  return turns.flatMap((record, i) => [
    ...openedAt(i + 1, recorded),
    ...at(record, [spoken(record)]),
    ...messagesAfter(i + 1, recorded, i === turns.length - 1),
  ]);
}

/** Tokens that a turn sampled: the number of its ids, or the server's count in chat. */
export function sampledTokensOf({ sampled, chat }: GenerateRecord): number {
  return chat ? (chat.usage?.completionTokens ?? 0) : sampled.length;
}

/** The turns in the context of the last one. */
const inLastContext = (turns: readonly GenerateRecord[]): readonly GenerateRecord[] => {
  const last = turns.at(-1);
  return last === undefined ? [] : turns.filter((one) => sameContext(one, last));
};

/** Tokens of the context of the last turn: the number of its ids, or the server's count in chat. */
export function contextTokensAfter(turns: readonly GenerateRecord[]): number {
  const last = turns.at(-1);
  if (last?.call && !last.chat) return last.call.promptTokens + last.sampled.length;
  const own = last?.call ? [last] : inLastContext(turns);
  const usage = own.findLast(({ chat }) => chat?.usage)?.chat?.usage;
  return usage ? usage.promptTokens + usage.completionTokens : contextAfter(own).length;
}

/** All ids of the context of the last turn, seen and sampled. */
export function contextAfter(turns: readonly GenerateRecord[]): number[] {
  let ids: number[] = [];
  for (const { appended, reset, sampled } of inLastContext(turns))
    ids = [...(reset ? [] : ids), ...appended, ...sampled];
  return ids;
}
