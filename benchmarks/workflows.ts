/** The bundle of `bench orchestration`: the real rollout, and a bare workflow that calls as many empty activities. */

import { proxyActivities } from '@temporalio/workflow';
import { hostQueue, QUEUES } from '../protocol/queues.ts';

export { rollout } from '../workflows/rollout.ts';

interface EmptyActivities {
  empty(): Promise<void>;
}

const on = (taskQueue: string) =>
  proxyActivities<EmptyActivities>({ taskQueue, startToCloseTimeout: '2m', heartbeatTimeout: '10s' });

/** The activities of a rollout with `turns` turns, in its order and on its queues, and nothing else. */
export async function bare(turns: number, host: string): Promise<void> {
  const queues = Array.from({ length: turns - 1 }, () => [QUEUES.gpu, hostQueue(host)]).flat();
  for (const queue of [QUEUES.init, ...queues, QUEUES.gpu, hostQueue(host), QUEUES.reward]) await on(queue).empty();
}
