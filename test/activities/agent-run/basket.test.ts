/** Hunts an example that no longer does what its page says: its gold solution earns 1, and an empty answer 0. */
import { beforeAll, expect, it, vi } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { checkLoaded } from '../../../config/open-tasks.ts';
import type { ActRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { attemptOf, inActivity, turnInput, useWorld } from '../world.ts';

const bench = await openBench();
const world = useWorld();
// The package that a user's module imports is this one.
vi.mock('longhaul', () => import('../../../client/index.ts'));
beforeAll(async () => {
  await import('../../../examples/environments/fill-a-basket.ts');
});

it.each([
  ['oracle', 1, ['{"apples": 3}', '{"apples": 3, "pears": 2}', '{"apples": 2, "pears": 2}']],
  ['empty', 0, undefined],
] as const)('%s', async (scripted, reward, said) => {
  const { store, deps } = world.now;
  const tasks = new TaskLoader(store);
  const attempt = { ...attemptOf(0, reward), task: 'fill-a-basket-train-1' };
  checkLoaded(attempt.task, (await tasks.load(attempt)).task);
  const place = { store, tasks, provider: bench.provider, host: 'here', maxLiveSandboxes: 9, sandboxTtlSeconds: 60 };
  const [init, agent] = [createInitActivities(place), createAgentRunActivities(place)];
  const { sandbox } = await inActivity(() => init.prepare(attempt));
  if (sandbox === null) throw new Error('it has no sandbox');
  const { signal } = new AbortController();
  const sample = (turn: number) =>
    generateTurn({ ...turnInput(turn), ...attempt, policy: { scripted, version: 0 } }, { ...deps, tasks }, signal);
  let turn = 1;
  while ((await sample(turn)).kind === 'act') {
    const at = { ...attempt, ...sandbox, turn, toolTimeoutSeconds: 60 };
    await inActivity(() => agent.agentRun(at));
    turn += 1;
  }
  const acted = await store.get<ActRecord>(keys.act(attempt, 1));
  expect(acted?.messages.map(({ content }) => content)).toEqual(said);
  const { artifact } = await inActivity(() => agent.collect({ ...attempt, ...sandbox }));
  const graded = { ...attempt, artifact, finish: 'finish-tool' as const, turns: turn };
  expect(await inActivity(() => createRewardActivities(place).computeReward(graded))).toMatchObject({ reward });
});
