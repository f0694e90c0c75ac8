/** What the policy saw and said, rollout by rollout, put together from the store for people and for files. */

import { join } from 'node:path';
import type { Message } from '../agents/message.ts';
import type { Store } from '../store/store.ts';
import { environmentOf } from '../tasks/registry.ts';
import { type ActRecord, actsOf, answerTo, type GenerateRecord, keys, type OutcomeRecord, spoken, turnsOf } from './records.ts';
import { writeAside } from './write-aside.ts';

export interface Trajectory extends Omit<OutcomeRecord, 'status'> {
  readonly status: OutcomeRecord['status'];
  readonly messages: readonly Message[];
  readonly policyVersions: readonly number[];
  readonly sampledTokens: number;
  readonly contextTokens: number;
}

/** Nobody tells a policy anything after its last turn; tools may still have answered. */
function answered(turn: GenerateRecord, act: ActRecord | undefined, isLast: boolean): readonly Message[] {
  return isLast && turn.hint !== undefined ? [] : answerTo(turn, act);
}

/** The trajectory of a rollout that has ended; `undefined` while it has not. */
export async function trajectoryOf(rollout: string, store: Store): Promise<Trajectory | undefined> {
  const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
  if (!outcome) return undefined;
  const turns = await turnsOf(store, outcome);
  const acts = await actsOf(store, outcome);
  const messages = turns.flatMap((turn, i) => [spoken(turn), ...answered(turn, acts.get(i + 1), i === turns.length - 1)]);
  return {
    ...outcome,
    messages: [...environmentOf(outcome.task).load(outcome.task).messages, ...messages],
    policyVersions: [...new Set(turns.map((turn) => turn.version))],
    sampledTokens: turns.reduce((sum, turn) => sum + turn.sampled.length, 0),
    contextTokens: turns.reduce((sum, turn) => (turn.reset ? 0 : sum) + turn.appended.length + turn.sampled.length, 0),
  };
}

/** Writes `trajectories/BATCH.jsonl`: a line per rollout of the batch that has ended. */
export async function writeTrajectories(run: string, batch: string, runDir: string, store: Store): Promise<void> {
  const ended = await store.list<OutcomeRecord>(keys.outcome(`train/${run}/${batch}/`));
  if (ended.length === 0) return;
  const lines: string[] = [];
  for (const { value } of ended) lines.push(`${JSON.stringify(await trajectoryOf(value.rollout, store))}\n`);
  await writeAside(join(runDir, 'trajectories', `${batch}.jsonl`), lines.join(''));
}
