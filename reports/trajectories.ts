/** What the policy saw and said, rollout by rollout, put together from the store for people and for files. */

import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Message } from '../protocol/message.ts';
import type { Store } from '../store/store.ts';
import { environmentOf } from '../tasks/registry.ts';
import {
  type ActRecord,
  answerTo,
  contextTokensAfter,
  type GenerateRecord,
  keys,
  type OutcomeRecord,
  sampledTokensOf,
  spoken,
} from '../protocol/records.ts';
import { actsOf, manifestIfAny, turnsOf } from '../store/read-records.ts';
import { writeAtomically } from '../store/atomic-write.ts';

export interface Trajectory extends Omit<OutcomeRecord, 'status'> {
  readonly status: OutcomeRecord['status'];
  readonly messages: readonly Message[];
  readonly policyVersions: readonly number[];
  readonly sampledTokens: number;
  readonly contextTokens: number;
  /** Why nothing of it could be trained on: an endpoint's turns may lack ids or log-probabilities. */
  readonly untrainable?: string;
}

/** Nobody tells a policy anything after its last turn; tools may still have answered. */
function answered(turn: GenerateRecord, act: ActRecord | undefined, isLast: boolean): readonly Message[] {
  return isLast && turn.hint !== undefined ? [] : answerTo(turn, act);
}

/** What a rollout's turns come to, without the task's own messages: kept where the turns themselves are pruned. */
type Turns = Pick<Trajectory, 'messages' | 'policyVersions' | 'sampledTokens' | 'contextTokens' | 'untrainable'>;

async function turnsIn(outcome: OutcomeRecord, store: Store): Promise<Turns> {
  // Of one that failed the last turns need not be on record.
  const turns = await turnsOf(store, outcome, outcome.status === 'graded' ? outcome.turns : 0);
  const acts = await actsOf(store, outcome);
  const untrainable = turns.find((turn) => turn.untrainable !== undefined)?.untrainable;
  return {
    messages: turns.flatMap((turn, i) => [spoken(turn), ...answered(turn, acts.get(i + 1), i === turns.length - 1)]),
    policyVersions: [...new Set(turns.map((turn) => turn.version))],
    sampledTokens: turns.reduce((sum, turn) => sum + sampledTokensOf(turn), 0),
    contextTokens: contextTokensAfter(turns),
    ...(untrainable === undefined ? {} : { untrainable }),
  };
}

/** Writes down what the turns come to, once: afterwards their own records are not needed for it. Errors: `StoreCorrupt` where one is missing. */
export async function keepTrajectory(outcome: OutcomeRecord, store: Store): Promise<void> {
  const key = keys.trajectory(outcome.rollout);
  if ((await store.get<Turns>(key)) === undefined) await store.putOnce(key, await turnsIn(outcome, store));
}

/** The trajectory of a rollout that has ended; `undefined` while it has not. Errors: `StoreCorrupt`, also where a turn of a graded one is missing. */
export async function trajectoryOf(rollout: string, store: Store): Promise<Trajectory | undefined> {
  const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
  if (!outcome) return undefined;
  const turns = (await store.get<Turns>(keys.trajectory(rollout))) ?? (await turnsIn(outcome, store));
  return {
    ...outcome,
    ...turns,
    messages: [...environmentOf(outcome.task).load(outcome.task).messages, ...turns.messages],
  };
}

export interface TrajectoriesFile {
  readonly run: string;
  readonly name: string;
  /** Names of the batches that it is of; absent: the one of its own name. */
  readonly batches?: readonly string[];
}

/** Writes `trajectories/NAME.jsonl`: a line per rollout of the batches, in the order of their manifests. */
export async function writeTrajectories(
  { run, name, batches = [name] }: TrajectoriesFile,
  runDir: string,
  store: Store,
): Promise<void> {
  const manifests = await Promise.all(batches.map((batch) => manifestIfAny(`train/${run}/${batch}`, store)));
  const lines: string[] = [];
  for (const rollout of manifests.flatMap((one) => one?.groups ?? []).flatMap(({ rollouts }) => rollouts)) {
    const trajectory = await trajectoryOf(rollout, store);
    if (trajectory) lines.push(`${JSON.stringify(trajectory)}\n`);
    // Reading is done in this thread: a large step must not hold up its own heartbeat.
    await nextTurn();
  }
  if (lines.length === 0) return;
  await writeAtomically(join(runDir, 'trajectories', `${name}.jsonl`), lines.join(''));
}
