/** The calls of one tool that ran before a given one, from the records of the attempt. */

import type { ToolCall } from '../protocol/message.ts';
import type { AnswerRecord, GenerateRecord } from '../protocol/records.ts';
import { attemptKey, keys, padded } from '../protocol/record-keys.ts';
import type { Attempt } from '../protocol/stages.ts';
import type { Store } from './store.ts';

/** A call's turn, from 1, and its place in it, from 0. */
export interface CallPlace {
  readonly turn: number;
  readonly index: number;
}

/** Oldest first. Calls that were not run, by their message's limits, are left out; refused ones are not. */
export async function earlierCalls(
  tool: string,
  attempt: Attempt,
  { turn, index }: CallPlace,
  store: Pick<Store, 'list'>,
): Promise<ToolCall[]> {
  const answers = await store.list<AnswerRecord>(keys.answers(attempt));
  const ran = new Set(answers.filter(({ value }) => value.name === tool && !value.notRun).map(({ key }) => key));
  if (ran.size === 0) return [];
  const turns = await store.list<GenerateRecord>(`generate:${attemptKey(attempt)}/`);
  return turns.flatMap(({ key, value: { parsed } }) => {
    const of = Number(key.slice(key.lastIndexOf('/') + 1));
    if (parsed.kind !== 'calls' || of > turn) return [];
    const calls = of === turn ? parsed.calls.slice(0, index) : parsed.calls;
    return calls.filter((_, i) => ran.has(`${keys.answers(attempt)}${padded(of)}/${i}`));
  });
}
