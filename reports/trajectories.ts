/** Trajectories: the messages of each rollout, collected from the store. */

import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AskExchange, AskRecord } from '../protocol/judge.ts';
import { hintCounts } from '../protocol/hints.ts';
import type { Store } from '../store/store.ts';
import { openingMessages } from '../tasks/opening-messages.ts';
import type { TaskLoader } from '../tasks/task-loader.ts';
import type { OutcomeRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import { contextTokensAfter, type Said, saidIn, sampledTokensOf } from '../protocol/transcript.ts';
import { actsOf, manifestIfAny, turnsOf } from '../store/read-records.ts';
import { writeAtomically } from '../store/atomic-write.ts';

/** What trajectories are read from. */
export interface TrajectoryDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
}

export interface Trajectory extends Omit<OutcomeRecord, 'status'> {
  readonly status: OutcomeRecord['status'];
  /** Those of a sub-agent have its `agentPath`, those after a summary their `segment`. */
  readonly messages: readonly Said[];
  readonly policyVersions: readonly number[];
  readonly sampledTokens: number;
  readonly contextTokens: number;
  /** Why it cannot be trained on: an endpoint's turns may lack ids or log-probabilities. */
  readonly untrainable?: string;
  /** What its environment, its tools and its grader asked judges, in order. Absent: nothing. */
  readonly asked?: readonly AskedQuestion[];
  /** How often each rule helped the policy. Absent: none did. */
  readonly hints?: Readonly<Record<string, number>>;
}

/** One call of a judge. */
export interface AskedQuestion extends Omit<AskRecord, 'exchange'>, AskExchange {
  /** `start`, `step/TURN`, `tool/TURN/INDEX` or `grade`. */
  readonly place: string;
}

async function askedIn(outcome: OutcomeRecord, store: Store): Promise<AskedQuestion[]> {
  const prefix = keys.asks(outcome);
  const rows = await store.list<AskRecord>(prefix);
  const asked = rows.map(async ({ key, value: { exchange, ...rest } }) => {
    const said = JSON.parse(Buffer.from(await store.getObject(exchange)).toString()) as AskExchange;
    const place = key.slice(prefix.length).split('/').slice(0, -2).join('/');
    return { place, ...rest, ...said };
  });
  return (await Promise.all(asked)).toSorted((a, b) => (a.at < b.at ? -1 : 1));
}

/** The parts of a trajectory that come from its turns, without the task's messages. Kept when the turns are pruned. */
type Turns = Pick<
  Trajectory,
  'messages' | 'policyVersions' | 'sampledTokens' | 'contextTokens' | 'untrainable' | 'asked' | 'hints'
>;

async function turnsIn(outcome: OutcomeRecord, store: Store): Promise<Turns> {
  // The last turns of a failed rollout may not be recorded.
  const turns = await turnsOf(store, outcome, outcome.status === 'graded' ? outcome.turns : 0);
  const acts = await actsOf(store, outcome);
  const untrainable = turns.find((turn) => turn.untrainable !== undefined)?.untrainable;
  const asked = await askedIn(outcome, store);
  const hints = hintCounts(turns);
  return {
    messages: saidIn({ turns, acts }),
    policyVersions: [...new Set(turns.map((turn) => turn.version))],
    sampledTokens: turns.reduce((sum, turn) => sum + sampledTokensOf(turn), 0),
    contextTokens: contextTokensAfter(turns),
    ...(untrainable === undefined ? {} : { untrainable }),
    ...(asked.length > 0 && { asked }),
    ...(Object.keys(hints).length > 0 && { hints }),
  };
}

/** Records the trajectory once, so that its turns can be pruned. Errors: `StoreCorrupt` if a turn is missing. */
export async function keepTrajectory(outcome: OutcomeRecord, store: Store): Promise<void> {
  const key = keys.trajectory(outcome.rollout);
  if ((await store.get<Turns>(key)) === undefined) await store.putOnce(key, await turnsIn(outcome, store));
}

/**
 * The trajectory of a rollout. `undefined` while it has not ended. Errors: `StoreCorrupt`, also if a turn of a graded
 * rollout is missing.
 */
export async function trajectoryOf(rollout: string, { store, tasks }: TrajectoryDeps): Promise<Trajectory | undefined> {
  const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
  if (!outcome) return undefined;
  const turns = (await store.get<Turns>(keys.trajectory(rollout))) ?? (await turnsIn(outcome, store));
  return { ...outcome, ...turns, messages: [...(await openingMessages(outcome, { store, tasks })), ...turns.messages] };
}

export interface TrajectoriesFile {
  readonly run: string;
  readonly name: string;
  /** Names of its batches. Absent: the batch `name`. */
  readonly batches?: readonly string[];
}

/** Writes `trajectories/NAME.jsonl`: a line per rollout of the batches, in the order of their manifests. */
export async function writeTrajectories(
  { run, name, batches = [name] }: TrajectoriesFile,
  runDir: string,
  deps: TrajectoryDeps,
): Promise<void> {
  const manifests = await Promise.all(batches.map((batch) => manifestIfAny(`train/${run}/${batch}`, deps.store)));
  const lines: string[] = [];
  for (const rollout of manifests.flatMap((one) => one?.groups ?? []).flatMap(({ rollouts }) => rollouts)) {
    const trajectory = await trajectoryOf(rollout, deps);
    if (trajectory) lines.push(`${JSON.stringify(trajectory)}\n`);
    // Reading blocks this thread, and a large step must not delay its own heartbeat.
    await nextTurn();
  }
  if (lines.length === 0) return;
  await writeAtomically(join(runDir, 'trajectories', `${name}.jsonl`), lines.join(''));
}
