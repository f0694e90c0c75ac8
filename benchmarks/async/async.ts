/**
 * `bench async`: how long a run takes in each mode of training, on a virtual clock, and with the real workflows on a
 * real Temporal server and activities that sleep. All modes have the same number of places for rollouts.
 */

import { Client, Connection } from '@temporalio/client';
import { QUEUES } from '../../protocol/queues.ts';
import type { TrainingSettings } from '../../protocol/run-config.ts';
import { startOwnWorkers, withOwnTemporal } from '../own-temporal.ts';
import { type AsyncMix, configOf, MODES } from './mix.ts';
import { type Simulated, simulateRun } from './simulate.ts';
import { type AsyncJob, sleepingRun } from './sleeping-parts.ts';

export interface AsyncOptions {
  readonly mixes: readonly AsyncMix[];
  readonly maxStalenessSteps: number;
  /** Seconds per unit of a mix through Temporal; 0: only the virtual clock. */
  readonly scale: number;
  readonly note: (line: string) => void;
}

type Mode = TrainingSettings['mode'];
type ByMode<T> = Readonly<Record<Mode, T>>;

export interface Through {
  /** From the start of the first rollout to the end of the last update, in units of the mix. */
  readonly makespan: number;
  readonly rolloutsPeak: number;
}

function virtualClock(mix: AsyncMix, maxStalenessSteps: number): ByMode<Simulated> {
  const entries = MODES.map((mode) => [mode, simulateRun(mix, configOf(mix, mode, maxStalenessSteps))]);
  return Object.fromEntries(entries) as Record<Mode, Simulated>;
}

/** The timeout of a run: one that takes several times as long as its stages is stuck. */
function deadlineOf({ makespan }: Simulated, scale: number): `${number}s` {
  return `${Math.ceil(3 * scale * makespan + 300)}s`;
}

async function measure(
  client: Client,
  jobs: Map<string, AsyncJob>,
  mix: AsyncMix,
  mode: Mode,
  options: AsyncOptions,
): Promise<Through> {
  const config = configOf(mix, mode, options.maxStalenessSteps);
  const job: AsyncJob = { mix, config, running: 0, peak: 0 };
  jobs.set(config.run, job);
  const workflowExecutionTimeout = deadlineOf(simulateRun(mix, config), options.scale);
  await client.workflow.execute('train', {
    taskQueue: QUEUES.orchestrator,
    workflowId: `train/${config.run}`,
    args: [config],
    workflowExecutionTimeout,
  });
  options.note(`${mix.name}, ${mode}: ended`);
  return { makespan: ((job.ended ?? 0) - (job.begun ?? 0)) / options.scale, rolloutsPeak: job.peak };
}

/** All runs side by side: they only sleep. */
async function throughTemporal(options: AsyncOptions): Promise<ReadonlyArray<ByMode<Through>>> {
  return withOwnTemporal(async ({ address }) => {
    const jobs = new Map<string, AsyncJob>();
    const places = options.mixes.reduce((sum, mix) => sum + mix.places, 0);
    const stop = await startOwnWorkers({
      address,
      workflows: '../workflows',
      from: import.meta,
      activities: sleepingRun(jobs, options.scale),
      slots: MODES.length * places + 40,
      cachedWorkflows: 4 * MODES.length * places + 100,
      heartbeatEvery: '10s',
    });
    const connection = await Connection.connect({ address });
    const client = new Client({ connection });
    try {
      return await Promise.all(
        options.mixes.map(async (mix) => {
          const entries = await Promise.all(
            MODES.map(async (mode) => [mode, await measure(client, jobs, mix, mode, options)] as const),
          );
          return Object.fromEntries(entries) as Record<Mode, Through>;
        }),
      );
    } finally {
      await connection.close();
      await stop();
    }
  });
}

const speedupOf = (by: ByMode<{ readonly makespan: number }>) => by.sync.makespan / by.async.makespan;

/** `speedup`: the makespan of sync divided by that of async. */
export async function benchAsync(options: AsyncOptions) {
  const { mixes, maxStalenessSteps, scale } = options;
  const through = scale > 0 ? await throughTemporal(options) : [];
  return {
    maxStalenessSteps,
    scale,
    mixes: mixes.map((mix, i) => {
      const clock = virtualClock(mix, maxStalenessSteps);
      const temporal = through[i];
      return {
        ...mix,
        virtualClock: { ...clock, speedup: speedupOf(clock) },
        ...(temporal ? { temporal: { ...temporal, speedup: speedupOf(temporal) } } : {}),
      };
    }),
  };
}
