/**
 * A plan with the place of its files, and what each of its rounds begins from and ends in: the critic's rounds come first,
 * then the policy's, each with a state of its model alone. The last one's is the update's result.
 */

import path from 'node:path';
import { isMadeFrom } from '../checkpoints/checkpoint.ts';
import { readVerifiedRecord } from '../checkpoints/verified-checkpoint.ts';
import { type CriticPlace, criticPlace } from '../critic/critic-files.ts';
import { planStamp, readPlan } from './plan-file.ts';
import type { UpdatePlan } from './update-plan.ts';

/** The update's folder has no such plan: it was cleared away, or another update is asked for. */
export class PlanLost extends Error {
  override readonly name = 'PlanLost';
}

export interface Located {
  readonly dir: string;
  readonly sha256: string;
  /** Of its file when it was read. */
  readonly stamp: string | undefined;
  readonly plan: UpdatePlan;
}

export const shardFile = (dir: string, round: number, shard: number): string =>
  path.join(dir, `round-${round}-shard-${shard}`);

export const criticRounds = ({ critic }: UpdatePlan): number => critic?.rounds.length ?? 0;

/** For each round the number of its shards. */
export const roundsOf = ({ critic, rounds }: UpdatePlan): number[] =>
  [...(critic?.rounds ?? []), ...rounds].map(({ shards }) => shards.length);

/** Errors: a `RangeError` for a round that there is not. */
export function shardsOf({ plan, dir }: Located, round: number): number {
  const rounds = roundsOf(plan);
  const shards = rounds[round];
  if (shards === undefined) throw new RangeError(`${dir} has ${rounds.length} rounds, and no round ${round}`);
  return shards;
}

export const isLast = ({ plan }: Located, round: number): boolean => round === roundsOf(plan).length - 1;

/** What a round's step leaves. */
export const resultDir = (at: Located, round: number): string =>
  isLast(at, round) ? at.plan.request.toDir : path.join(at.dir, `round-${round + 1}`);

/** The policy that a round begins from: none of the critic's rounds changes it. */
export const policyBefore = (at: Located, round: number): string =>
  round <= criticRounds(at.plan) ? at.plan.request.fromDir : resultDir(at, round - 1);

/** The critic that a round begins from; after its last round it stays. `undefined` where none is trained. */
export function criticBefore(at: Located, round: number): CriticPlace | undefined {
  const steps = Math.min(round, criticRounds(at.plan));
  return steps === 0 ? criticPlace(at.plan.request) : { dir: resultDir(at, steps - 1) };
}

/** Whether the round's step was taken, or a later one. Errors: `CheckpointTorn`. */
export async function isDone(at: Located, round: number): Promise<boolean> {
  for (let later = roundsOf(at.plan).length - 1; later >= round; later--) {
    const record = await readVerifiedRecord(resultDir(at, later));
    if (record !== undefined && isMadeFrom(record, at.plan.request.input)) return true;
  }
  return false;
}

/** The plan of that digest in `dir`, from its file. Errors: `PlanLost`, `UnknownPlanFormat`. */
export async function readLocated(dir: string, sha256: string): Promise<Located> {
  const stamp = await planStamp(dir);
  const found = await readPlan(dir);
  if (found?.sha256 !== sha256)
    throw new PlanLost(`${dir} has ${found === undefined ? 'no plan' : 'another plan'} of an update: begin it again`);
  return { dir, sha256, stamp, plan: found.value };
}

/** Writing a state makes its folder: one that comes late must not bring back what was cleared away. Errors: `PlanLost`. */
export async function checkPlanned({ dir, sha256, stamp }: Located): Promise<void> {
  if ((await planStamp(dir)) !== stamp) await readLocated(dir, sha256);
}

/** States that nobody needs once a round's step is taken: the critic's last one goes with the update's. */
export function spentStates(at: Located, round: number): string[] {
  const ofCritic = criticRounds(at.plan) - 1;
  const before = round > 0 ? [round - 1] : [];
  const spent = isLast(at, round) ? [...before, ofCritic] : before.filter((one) => one !== ofCritic);
  return spent.filter((one) => one >= 0).map((one) => resultDir(at, one));
}
