/**
 * A plan with its folder, and the directories of each round's start and result. The critic's rounds come first, then
 * the policy's. A round's result is a state of its own model; the last round's result is the update's result.
 */

import path from 'node:path';
import { isMadeFrom } from '../checkpoints/checkpoint.ts';
import { readVerifiedRecord } from '../checkpoints/verified-checkpoint.ts';
import { type CriticPlace, criticPlace } from '../critic/critic-files.ts';
import { planStamp, readPlan } from './plan-file.ts';
import type { UpdatePlan } from './update-plan.ts';

/** The update's folder does not have the plan: it was removed, or it is the plan of another update. */
export class PlanLost extends Error {
  override readonly name = 'PlanLost';
}

export interface Located {
  readonly dir: string;
  readonly sha256: string;
  /** `planStamp` of the file when it was read. */
  readonly stamp: string | undefined;
  readonly plan: UpdatePlan;
}

export const shardFile = (dir: string, round: number, shard: number): string =>
  path.join(dir, `round-${round}-shard-${shard}`);

export const criticRounds = ({ critic }: UpdatePlan): number => critic?.rounds.length ?? 0;

/** The number of shards of each round. */
export const roundsOf = ({ critic, rounds }: UpdatePlan): number[] =>
  [...(critic?.rounds ?? []), ...rounds].map(({ shards }) => shards.length);

/** The number of shards of a round. Errors: `RangeError` if the plan does not have the round. */
export function shardsOf({ plan, dir }: Located, round: number): number {
  const rounds = roundsOf(plan);
  const shards = rounds[round];
  if (shards === undefined) throw new RangeError(`${dir} has ${rounds.length} rounds; round ${round} does not exist`);
  return shards;
}

export const isLast = ({ plan }: Located, round: number): boolean => round === roundsOf(plan).length - 1;

/** The directory that a round's step writes. */
export const resultDir = (at: Located, round: number): string =>
  isLast(at, round) ? at.plan.request.toDir : path.join(at.dir, `round-${round + 1}`);

/** The policy that a round starts from. The critic's rounds do not change it. */
export const policyBefore = (at: Located, round: number): string =>
  round <= criticRounds(at.plan) ? at.plan.request.fromDir : resultDir(at, round - 1);

/** The critic that a round starts from; the policy's rounds do not change it. `undefined` if no critic is trained. */
export function criticBefore(at: Located, round: number): CriticPlace | undefined {
  const steps = Math.min(round, criticRounds(at.plan));
  return steps === 0 ? criticPlace(at.plan.request) : { dir: resultDir(at, steps - 1) };
}

/** True if the step of this round or of a later one is finished. Errors: `CheckpointTorn`. */
export async function isDone(at: Located, round: number): Promise<boolean> {
  for (let later = roundsOf(at.plan).length - 1; later >= round; later--) {
    const record = await readVerifiedRecord(resultDir(at, later));
    if (record !== undefined && isMadeFrom(record, at.plan.request.input)) return true;
  }
  return false;
}

/** Reads the plan with this digest from `dir`. Errors: `PlanLost`, `UnknownPlanFormat`. */
export async function readLocated(dir: string, sha256: string): Promise<Located> {
  const stamp = await planStamp(dir);
  const found = await readPlan(dir);
  if (found?.sha256 !== sha256)
    throw new PlanLost(
      `${dir} has ${found === undefined ? 'no plan' : 'another plan'} of an update: start the update again`,
    );
  return { dir, sha256, stamp, plan: found.value };
}

/** Checks that the plan still exists: writing a state would create a folder that was removed. Errors: `PlanLost`. */
export async function checkPlanned({ dir, sha256, stamp }: Located): Promise<void> {
  if ((await planStamp(dir)) !== stamp) await readLocated(dir, sha256);
}

/** States that are not needed after a round's step. The critic's last state is needed until the last round's step. */
export function spentStates(at: Located, round: number): string[] {
  const ofCritic = criticRounds(at.plan) - 1;
  const before = round > 0 ? [round - 1] : [];
  const spent = isLast(at, round) ? [...before, ofCritic] : before.filter((one) => one !== ofCritic);
  return spent.filter((one) => one >= 0).map((one) => resultDir(at, one));
}
