/** The activities of the Tinker API's lanes, on GPU workers. Nothing of them is in Temporal but that they run. */

import { laneName, type TinkerActivities } from '../../protocol/tinker-lanes.ts';
import type { SqliteJournal } from '../../store/tinker/sqlite-journal.ts';
import { withFailureMapping } from '../failure-mapping.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { drainModel } from './drain-model.ts';
import { drainSampling } from './drain-sampling.ts';
import { FairTurns } from './fair-turns.ts';
import { DRAIN_LIMITS, type DrainLimits } from './limits.ts';
import { ResidentModels } from './resident-models.ts';
import type { TinkerEngine } from './tinker-engine.ts';

export interface TinkerDeps {
  /** Opened when the first lane is asked for: stacks without the API have no journal. */
  readonly journal: () => SqliteJournal;
  readonly engine: TinkerEngine;
  /** The kind of engine that trains in this worker. */
  readonly kind: string;
  /** Names this process. */
  readonly owner: string;
  readonly say: (line: string) => void;
  readonly limits?: DrainLimits;
  /** This process ends: lanes are handed on at once, saved. */
  readonly stopping?: AbortSignal;
}

export function createTinkerActivities(deps: TinkerDeps): TinkerActivities {
  const { engine, kind, owner, say, limits = DRAIN_LIMITS } = deps;
  const turns = new FairTurns();
  let residents: ResidentModels | undefined;
  const parts = () => {
    const journal = deps.journal();
    residents ??= new ResidentModels({ journal, engine, turns, limits, say });
    return { journal, engine, turns, residents, owner, say, limits };
  };
  return {
    openTinkerLane: ({ lane }) =>
      withFailureMapping(async () => ({ kind: await parts().journal.pinKind(laneName(lane), kind) })),
    drainTinkerLane: ({ lane }) =>
      withFailureMapping(() =>
        withHeartbeat((cancelled) => {
          const signal = deps.stopping === undefined ? cancelled : AbortSignal.any([cancelled, deps.stopping]);
          return lane.what === 'model'
            ? drainModel(lane.model, parts(), signal)
            : drainSampling(lane.base, parts(), signal);
        }),
      ),
  };
}
