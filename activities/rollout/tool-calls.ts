/**
 * A turn's tool calls: each has one journal key, in whichever sandbox it runs, and one answer on record. In a sandbox
 * that took the place of a lost one, what was answered before is run again and its answer stays as it was.
 */

import type { Message, ToolCall } from '../../agents/message.ts';
import { onlyReads, runToolCall } from '../../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import type { Store } from '../../store/store.ts';
import { environmentOf } from '../../tasks/registry.ts';
import type { Attempt } from '../../workflows/messages/stages.ts';
import { RestoreFailed } from '../failures.ts';
import { type ActRecord, actsOf, type AnswerRecord, attemptKey, type GenerateRecord, keys, type RestoredRecord } from '../records.ts';

/** Where and for how long an attempt's calls run. */
export interface Acting {
  readonly attempt: Attempt;
  readonly sandbox: Sandbox;
  readonly store: Store;
  readonly toolTimeoutSeconds: number;
}

/** Up to `finish`, which runs nowhere. */
async function callsOf({ store, attempt }: Acting, turn: number): Promise<readonly ToolCall[]> {
  const key = keys.generate(attempt, turn);
  const record = await store.get<GenerateRecord>(key);
  if (record?.parsed.kind !== 'calls') throw new Error(`${key} holds no tool calls`);
  const finish = record.parsed.calls.findIndex((call) => call.name === 'finish');
  return finish < 0 ? record.parsed.calls : record.parsed.calls.slice(0, finish);
}

async function run(call: ToolCall, turn: number, index: number, kind: 'tool' | 'replay', acting: Acting): Promise<string> {
  const { attempt, sandbox, store, toolTimeoutSeconds } = acting;
  const callId = `${attemptKey(attempt)}/${turn}/${index}`;
  await store.begin(kind === 'tool' ? `tool:${callId}` : `replay:${sandbox.id}/${turn}/${index}`);
  return runToolCall(call, toolsOf(attempt), sandbox, { callId, timeoutMs: toolTimeoutSeconds * 1000 });
}

function messageOf(record: AnswerRecord): Message {
  const { sandbox: _, ...message } = record;
  return message;
}

/** On record before the next call begins: a view that is repeated would see what later calls have changed. */
async function answerOf(call: ToolCall, turn: number, index: number, acting: Acting): Promise<Message> {
  const { attempt, sandbox, store } = acting;
  const key = keys.answer(attempt, turn, index);
  const known = await store.get<AnswerRecord>(key);
  // In the sandbox that took over, the journal knows what was replayed already.
  if (known && (known.sandbox ?? sandbox.id) !== sandbox.id) await run(call, turn, index, 'replay', acting);
  if (known) return messageOf(known);
  const content = await run(call, turn, index, 'tool', acting);
  return messageOf(await store.putOnce<AnswerRecord>(key, { role: 'tool', name: call.name, content, sandbox: sandbox.id }));
}

function toolsOf({ task }: Attempt): readonly string[] {
  return environmentOf(task).load(task).tools;
}

type Left = Pick<ActRecord, 'digest' | 'untouched'>;

/** What the turn left; after calls that only read it is what was there before. */
async function leftBy(calls: readonly ToolCall[], turn: number, { attempt, sandbox, store }: Acting): Promise<Left> {
  const acts = [...(await actsOf(store, attempt))].filter(([before]) => before < turn).toSorted(([a], [b]) => a - b);
  const { digest: known, untouched }: Left = acts.at(-1)?.[1] ?? { untouched: true };
  const hasRead = calls.every((call) => onlyReads(call, toolsOf(attempt)));
  if (untouched && hasRead) return { untouched };
  // A workspace that was too large to be told once is not looked at again.
  if (hasRead || (!untouched && known === undefined)) return known === undefined ? {} : { digest: known };
  const digest = await workspaceDigest(sandbox, `${attemptKey(attempt)}/${turn}/digest`);
  return digest === undefined ? {} : { digest };
}

/** Runs what has no answer yet, and records the turn. */
export async function actTurn(acting: Acting, turn: number): Promise<ActRecord> {
  const { attempt, sandbox, store } = acting;
  const calls = await callsOf(acting, turn);
  const messages: Message[] = [];
  for (const [index, call] of calls.entries()) messages.push(await answerOf(call, turn, index, acting));
  return store.putOnce<ActRecord>(keys.act(attempt, turn), { messages, sandbox: sandbox.id, ...(await leftBy(calls, turn, acting)) });
}

/** Where nothing but reading was done, the same answers vouch for the same workspace. */
function sameAnswer(record: ActRecord, index: number, content: string): boolean {
  return !record.untouched || record.messages[index]?.content === content;
}

/**
 * Runs the calls of `turns`, which are on record, again, and compares what the last of them leaves.
 * Errors: `RestoreFailed` where that differs from what was, or where that was never known.
 */
export async function replayTurns(acting: Acting, turns: ReadonlyArray<readonly [turn: number, record: ActRecord]>): Promise<void> {
  const last = turns.at(-1);
  if (!last) return;
  const { attempt, sandbox } = acting;
  const [lastTurn, { digest, untouched }] = last;
  if (digest === undefined && !untouched) throw new RestoreFailed(`${attemptKey(attempt)}: turn ${lastTurn} has no digest to compare with`);
  for (const [turn, record] of turns) {
    for (const [index, call] of (await callsOf(acting, turn)).entries()) {
      const content = await run(call, turn, index, 'replay', acting);
      if (!sameAnswer(record, index, content)) throw new RestoreFailed(`${attemptKey(attempt)}: call ${index} of turn ${turn}, which only reads, has another answer in the new sandbox`);
    }
  }
  if (digest === undefined) return;
  const now = await workspaceDigest(sandbox, `${attemptKey(attempt)}/${lastTurn}/digest-replayed`);
  if (now !== digest) throw new RestoreFailed(`${attemptKey(attempt)}: after turn ${lastTurn} the workspace was ${digest.slice(0, 12)}, and replayed it is ${now?.slice(0, 12) ?? 'not to be told'}`);
}

/** Whether the turn's calls ran in this sandbox, or were run again in it. */
export async function isHere({ sandbox }: { readonly sandbox: string }, turn: number, record: ActRecord, store: Store): Promise<boolean> {
  if ((record.sandbox ?? sandbox) === sandbox) return true;
  const restored = await store.get<RestoredRecord>(keys.restored(sandbox));
  return restored !== undefined && restored.turn >= turn;
}
