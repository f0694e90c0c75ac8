/** A GPU worker's part in the Tinker API: its engine, and the queues of lanes whose kind of engine it has. */

import type { WorkerOptions } from '@temporalio/worker';
import { createTinkerActivities } from '../../activities/tinker/tinker.ts';
import type { TinkerEngine } from '../../activities/tinker/tinker-engine.ts';
import type { EngineKinds } from '../../protocol/engine.ts';
import { kindQueue } from '../../protocol/queues.ts';
import { TINKER_QUEUE } from '../../protocol/tinker-lanes.ts';
import { WORKER_PATIENCE } from '../../store/disk-patience.ts';
import { openTinkerJournal, type SqliteJournal } from '../../store/tinker/sqlite-journal.ts';
import { type EmbeddedEngine, EngineLost } from '../../trainer/embedded/embedded-engine.ts';
import type { Engine } from '../../trainer/engine.ts';
import { adapterTrainer, callAdapters } from '../../trainer/tenants/adapter-calls.ts';
import { sampleFor } from '../../trainer/tenants/sample.ts';

export interface TinkerLanesOptions {
  /** `sampling`: the engine whose lost thread ends the process. */
  readonly engine: Pick<EmbeddedEngine, 'tenants'>;
  readonly sampling: Pick<Engine, 'generate'>;
  readonly digestOf: (dir: string) => Promise<string>;
  readonly kinds: EngineKinds;
  /** URL. */
  readonly store: string;
  /** Names this process. */
  readonly owner: string;
  readonly say: (line: string) => void;
  /** Called when the engine's thread has ended. */
  readonly whenLost: () => void;
}

/** What is sampled depends on base, adapter and sample alone; its seed was drawn when it was accepted. */
const NOISE = 'tinker';

export function tinkerEngine(options: Omit<TinkerLanesOptions, 'kinds' | 'store' | 'owner' | 'say'>): TinkerEngine {
  const { engine, sampling, digestOf, whenLost } = options;
  return {
    trainerOf: async (dir) => {
      const own = engine.tenants(dir);
      return adapterTrainer((call, signal) =>
        callAdapters(own, call, signal).catch((error: unknown) => {
          if (error instanceof EngineLost) whenLost();
          throw error;
        }),
      );
    },
    sample: async (base, adapter, sample, signal) => {
      const policy = { dir: base, version: 0, digest: await digestOf(base) };
      return sampleFor(sampling, policy, adapter === undefined ? undefined : { dir: adapter }, sample, NOISE, signal);
    },
  };
}

export interface TinkerLanes {
  readonly queues: ReadonlyArray<readonly [queue: string, activities: NonNullable<WorkerOptions['activities']>]>;
  close(): Promise<void>;
}

/** The journal is opened with the first lane: most stacks never serve the API. */
export function tinkerLanes(options: TinkerLanesOptions): TinkerLanes {
  const { kinds, store, owner, say } = options;
  let journal: SqliteJournal | undefined;
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stopping.abort());
  const activities = {
    ...createTinkerActivities({
      journal: () => (journal ??= openTinkerJournal(store, { ...WORKER_PATIENCE, say })),
      engine: tinkerEngine(options),
      kind: kinds.training.id,
      owner,
      say,
      stopping: stopping.signal,
    }),
  };
  const names = [TINKER_QUEUE, kindQueue(TINKER_QUEUE, kinds.training.id)];
  return { queues: names.map((queue) => [queue, activities] as const), close: async () => journal?.close() };
}
