/**
 * Hunts a full disk that is reported as a timeout: every activity of a rollout has more time than the store waits for
 * room. The limits are read from the history of a real server.
 */

import { expect, it } from 'vitest';
import { WORKER_PATIENCE } from '../../../store/disk-patience.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
/** The release has a short limit: if it fails, the sweeper removes the sandbox. */
const UNAWAITED = new Set(['releaseSandbox']);

it('an activity is given up later than the store gives up its disk, however short the limit of a tool is', async () => {
  world.script = {
    ttlSeconds: () => 3,
    before: async (activity) => {
      if (activity === 'generate') await new Promise((resolve) => setTimeout(resolve, 1500));
    },
  };
  const endpoint = { baseUrl: 'http://127.0.0.1:9/v1', model: 'm' };
  const handle = await world.start('rollout', 'limits', {
    task: 't-train-0',
    policy: { endpoint },
    agent: { toolTimeoutSeconds: 1 },
  });
  await handle.result();
  const { events } = await handle.fetchHistory();
  const limits = (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: one }) =>
    one ? [[one.activityType?.name ?? '', Number(one.startToCloseTimeout?.seconds) * 1000] as const] : [],
  );
  expect(limits.map(([name]) => name)).toEqual(
    expect.arrayContaining(['checkEndpoint', 'prepare', 'generate', 'holdSandbox', 'agentRun', 'computeReward']),
  );
  for (const [name, ms] of limits) if (!UNAWAITED.has(name)) expect(ms, name).toBeGreaterThan(WORKER_PATIENCE.totalMs);
});
