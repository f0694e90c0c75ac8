/**
 * Handles states between two rounds that are torn or missing. They have no copy, but can be computed again. So the
 * update starts again from its plan instead of waiting.
 */

import path from 'node:path';
import { removeCheckpoint } from '../checkpoints/checkpoint.ts';
import { CheckpointTorn, readVerifiedRecord } from '../checkpoints/verified-checkpoint.ts';
import {
  criticBefore,
  criticRounds,
  isDone,
  isLast,
  type Located,
  PlanLost,
  policyBefore,
  resultDir,
} from './located-plan.ts';

const isOwn = ({ dir }: Located, place: string): boolean => place.startsWith(dir + path.sep);

/**
 * The update's own states that a round starts from. The last round also needs the critic's, since it writes the critic.
 */
function statesBefore(at: Located, round: number): string[] {
  const critic = round < criticRounds(at.plan) || isLast(at, round) ? criticBefore(at, round) : undefined;
  return [policyBefore(at, round), ...(critic !== undefined && 'dir' in critic ? [critic.dir] : [])].filter((dir) =>
    isOwn(at, dir),
  );
}

/** Checks that the states have records: without one, a state would be read as untrained. Errors: `CheckpointTorn`. */
export async function checkStatesBefore(at: Located, round: number): Promise<void> {
  for (const dir of statesBefore(at, round)) {
    if ((await readVerifiedRecord(dir)) === undefined) throw new CheckpointTorn(dir, 'it has no record');
  }
}

/**
 * Runs `part` of a round. Its error is ignored if another execution has finished the round's step: that execution may
 * have removed files that `part` reads. If one of the update's own states is lost, all of them are removed. Errors:
 * `PlanLost` in that case, those of `part`.
 */
export async function unlessStateLost(at: Located, round: number, part: () => Promise<void>): Promise<void> {
  try {
    await part();
  } catch (error) {
    if (await isDone(at, round).catch(() => false)) return;
    if (!(error instanceof CheckpointTorn) || !isOwn(at, error.dir)) throw error;
    for (let one = 0; !isLast(at, one); one++) await removeCheckpoint(resultDir(at, one));
    throw new PlanLost(
      `${error.dir} is a state between two rounds of an update, and is torn or missing: start the update again`,
      { cause: error },
    );
  }
}
