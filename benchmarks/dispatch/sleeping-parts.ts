/**
 * Activities that only sleep, for the scaled times of a case, and record the start and the end of each stage. The
 * workflows above them are the real ones.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { withHeartbeat } from '../../activities/heartbeat.ts';
import type {
  GpuActivities,
  InitActivities,
  OrchestratorActivities,
  RewardActivities,
} from '../../protocol/activities.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import type { Stage } from '../../protocol/rollout.ts';
import { idleAgent } from '../empty-parts.ts';
import type { DispatchCase } from './cases.ts';
import type { Interval } from './measure.ts';

const HOST = 'bench-host';

/** One batch: one case in one order. */
export interface Job {
  readonly given: DispatchCase;
  /** The number of rollouts that have started. */
  begun: number;
  over: boolean;
  /** In units of the case, from an arbitrary zero. */
  readonly intervals: Interval[];
}

/** `jobs`: by the workflow ids of their batches; `scale`: seconds per unit of a case. */
export function sleepingActivities(jobs: ReadonlyMap<string, Job>, scale: number): Record<string, object> {
  const units = () => performance.now() / 1000 / scale;
  const stay = (rollout: string, stage: Stage) =>
    withHeartbeat(async (signal) => {
      const [task = '', sample = ''] = rollout.split('/').slice(-2);
      const job = jobs.get(rollout.slice(0, -(task.length + sample.length + 2)));
      if (!job) throw new Error(`${rollout} belongs to no batch of this bench`);
      const index = Number(task) * job.given.samples + Number(sample);
      if (stage === 'init') job.begun += 1;
      const start = units();
      await sleep((job.given.times[index]?.[stage] ?? 0) * scale * 1000, undefined, { signal });
      job.intervals.push({ rollout: index, stage, start, end: units() });
    });
  const init: InitActivities = {
    async prepare({ rollout }) {
      await stay(rollout, 'init');
      return { sandbox: { sandbox: rollout, host: HOST }, gradedIn: 'fresh' };
    },
    restoreSandbox: async ({ rollout }) => ({ sandbox: { sandbox: rollout, host: HOST }, gradedIn: 'fresh' }),
  };
  const gpu: Pick<GpuActivities, 'generate'> = {
    async generate({ rollout }) {
      await stay(rollout, 'agent-run');
      return { kind: 'finish', calls: 0, contextTokens: 0, sampledTokens: 0, line: 'slept' };
    },
  };
  const reward: RewardActivities = {
    async computeReward({ rollout }) {
      await stay(rollout, 'reward');
      return { code: 'graded', reward: 1, passed: true, reason: '' };
    },
  };
  const orchestrator: Pick<OrchestratorActivities, 'recordDispatched' | 'recordBatch' | 'recordFailures'> = {
    recordDispatched: async () => undefined,
    recordBatch: async () => undefined,
    recordFailures: async () => undefined,
  };
  return {
    [QUEUES.init]: init,
    [QUEUES.gpu]: gpu,
    [hostQueue(HOST)]: idleAgent,
    [QUEUES.reward]: reward,
    [QUEUES.orchestrator]: orchestrator,
  };
}
