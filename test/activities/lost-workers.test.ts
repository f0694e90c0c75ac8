/** Hunts work that runs again although it ended its workers each time: no activity starts it, and a recorded result is returned. */
import { expect, it, vi } from 'vitest';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { createShardActivities } from '../../activities/update/sharded-update.ts';
import { updateOnce } from '../../activities/update/update.ts';
import { keys } from '../../protocol/record-keys.ts';
import { tried } from '../../activities/tries.ts';
import { LOST_WORKERS } from '../../protocol/failure-policy.ts';
import { finishCall, saying, trainingBy } from './scripted-parts.ts';
import { algorithm, attemptOf, ended, environment, RUN, turnInput, useWorld } from './world.ts';
import { execution } from './executions.ts';

const world = useWorld();
const attempt = attemptOf();
const ref = { sandbox: `${attempt.rollout}#1`, host: 'here' };

function activities() {
  const { store, provider, deps } = world.now;
  const { tasks } = deps;
  const parts = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const [init, agent, reward] = [
    createInitActivities(parts),
    createAgentRunActivities(parts),
    createRewardActivities(parts),
  ];
  const engine = {
    planUpdate: () => Promise.reject(new Error('asked')),
    forwardBackward: () => Promise.reject(new Error('asked')),
    optimStep: () => Promise.reject(new Error('asked')),
  };
  const shards = createShardActivities({ store, engine });
  const update = {
    run: RUN,
    runDir: world.now.dir,
    step: 1,
    steps: 1,
    batches: [`train/${RUN}/step-1`],
    samples: 2,
    policy: { uri: 'file:///p', version: 0 },
    algorithm,
  };
  const round = { ...update, dir: '/d', plan: 'p', round: 0 };
  return {
    prepare: () => init.prepare(attempt),
    restoreSandbox: () => init.restoreSandbox({ ...attempt, restore: 1, toolTimeoutSeconds: 1 }),
    generate: () => tried({ store, place: 'gpu' }, (signal) => generateTurn(turnInput(2), deps, signal)),
    agentRun: () => agent.agentRun({ ...attempt, ...ref, turn: 1, toolTimeoutSeconds: 1 }),
    collect: () => agent.collect({ ...attempt, ...ref }),
    holdSandbox: () => agent.holdSandbox({ ...attempt, ...ref }),
    computeReward: () => reward.computeReward({ ...attempt, artifact: 'sha256:00', finish: 'finish-tool', turns: 1 }),
    update: () =>
      tried({ store, place: 'gpu' }, () => updateOnce(update, store, trainingBy(world.now.engine), () => undefined)),
    planUpdate: () => shards.planUpdate({ ...update, shards: 2 }),
    forwardBackward: () => shards.forwardBackward({ ...round, shard: 0 }),
    optimStep: () => shards.optimStep(round),
  };
}

it.each(
  Object.keys({
    prepare: 0,
    restoreSandbox: 0,
    generate: 0,
    agentRun: 0,
    collect: 0,
    holdSandbox: 0,
    computeReward: 0,
    update: 0,
    planUpdate: 0,
    forwardBackward: 0,
    optimStep: 0,
  } satisfies Record<keyof ReturnType<typeof activities>, 0>) as Array<keyof ReturnType<typeof activities>>,
)('%s starts nothing after too many lost workers', async (name) => {
  await ended(world.now.store, 0, 0, 1);
  await ended(world.now.store, 0, 1, 0);
  for (const k of [0, 1])
    await world.now.store.putOnce(keys.generate(attemptOf(0, k), 1), {
      version: 0,
      appended: [1],
      reset: false,
      sampled: [2],
      logprobs: [-1],
      end: 'stop',
      parsed: { kind: 'no-call', content: '' },
    });
  const work: () => Promise<unknown> = activities()[name];
  await expect(execution(LOST_WORKERS + 1, work)).rejects.toMatchObject({ type: 'WorkersLost' });
  expect(world.now.engine.requests).toEqual([]);
  expect(environment.graded).toEqual([]);
});

it.each(['update', 'planUpdate'] as const)(
  '%s reads no training data after too many lost workers: reading it may be what ends them',
  async (name) => {
    await ended(world.now.store, 0, 0, 1);
    const get = vi.spyOn(world.now.store, 'get');
    const work: () => Promise<unknown> = activities()[name];
    await expect(execution(LOST_WORKERS + 1, work)).rejects.toMatchObject({ type: 'WorkersLost' });
    expect(get.mock.calls).toEqual([[keys.update(RUN, 1)]]);
  },
);

it('a recorded result is returned, however many workers were lost', async () => {
  world.now.engine.answers = [saying(finishCall)];
  const generate = () =>
    generateTurn(
      turnInput(1, { policy: { uri: 'file:///policy', version: 0, digest: 'files of /policy' } }),
      world.now.deps,
      new AbortController().signal,
    );
  const first = await generate();
  expect(await execution(LOST_WORKERS + 30, generate)).toEqual(first);
});
