/**
 * States between two rounds that are torn or gone: nobody has a copy of them, and all of them can be made again, so that
 * an update begins again by its plan instead of standing still.
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

/** What a round begins from, as far as it is the update's own; the last one writes the critic as well. */
function statesBefore(at: Located, round: number): string[] {
  const critic = round < criticRounds(at.plan) || isLast(at, round) ? criticBefore(at, round) : undefined;
  return [policyBefore(at, round), ...(critic !== undefined && 'dir' in critic ? [critic.dir] : [])].filter((dir) =>
    isOwn(at, dir),
  );
}

/** Without its record a state would be read as a model that was never trained. Errors: `CheckpointTorn`. */
export async function checkStatesBefore(at: Located, round: number): Promise<void> {
  for (const dir of statesBefore(at, round)) {
    if ((await readVerifiedRecord(dir)) === undefined) throw new CheckpointTorn(dir, 'it has no record');
  }
}

/**
 * Makes a part of a round. What fails since another execution has taken the round's step meanwhile, and cleared away what
 * this one was reading, is over. Where a state of the update's own is lost all are given up. Errors: `PlanLost` then, those of `part`.
 */
export async function unlessStateLost(at: Located, round: number, part: () => Promise<void>): Promise<void> {
  try {
    await part();
  } catch (error) {
    if (await isDone(at, round).catch(() => false)) return;
    if (!(error instanceof CheckpointTorn) || !isOwn(at, error.dir)) throw error;
    for (let one = 0; !isLast(at, one); one++) await removeCheckpoint(resultDir(at, one));
    throw new PlanLost(`${error.dir} is torn or gone, between two rounds of an update: begin it again`, {
      cause: error,
    });
  }
}
