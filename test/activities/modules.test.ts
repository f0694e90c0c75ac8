/**
 * Hunts two evals whose modules define the same names: each must be prepared, asked and graded by its own, in the same
 * worker, also when the files have changed since it started.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { generateTurn } from '../../activities/generate/generate.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createSweepActivities } from '../../activities/orchestrator/sweep/sweep-activities.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { inActivity, turnInput, useWorld } from './world.ts';

const world = useWorld();
const { signal } = new AbortController();

/** An environment `side` with its own word, and an agent that ends at once. */
const moduleText = (word: string, reward: number) => `
import { defineAgent, defineEnvironment, z } from 'longhaul';
defineAgent({ name: 'mine', reads: 'text', decide: () => ({ do: 'answer' }) });
defineEnvironment({
  name: 'side',
  options: z.strictObject({ extra: z.string().default('none') }),
  open: async ({ extra }) => ({
    digest: 'side',
    splits: { test: 10 },
    load: async () => ({
      messages: [{ role: 'user', content: 'Say ${word}, ' + extra }],
      tools: [],
      agent: { type: 'mine' },
      grade: async (_ctx, { answer, transcript }) => {
        if (answer === 'throw') throw new RangeError('no ${word}');
        return { code: 'graded', reward: answer === '${word}' ? ${reward} : 0, passed: true, reason: transcript[0].content };
      },
      oracle: async () => [{ role: 'assistant', content: '${word}' }],
    }),
  }),
});
`;

function parts() {
  const { dir, store, provider, deps } = world.now;
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const module = join(dir, 'side.ts');
  const open = async (name: string, execution = name) =>
    inActivity(() =>
      createSweepActivities({ store, tasks }).openSweep({
        given: {
          eval: name,
          dir,
          modules: [module],
          tasks: { name: 'side', split: 'test', count: 3 },
          policies: ['oracle', 'empty'],
        },
        eval: name,
        execution,
      }),
    );
  const rollout = async (name: string, catalog: ObjectRef | undefined) => {
    const attempt = { run: `eval/${name}`, rollout: `eval/${name}/0`, attempt: 1, task: 'side-test-0' };
    const input = { ...attempt, ...(catalog && { catalog }) };
    const card = await inActivity(() => createInitActivities(place).prepare(input));
    const turn = { ...turnInput(1), ...input, policy: { scripted: 'oracle', version: 0 } as const };
    const { kind } = await generateTurn(turn, { ...deps, tasks }, signal);
    const verdict = await inActivity(() =>
      createRewardActivities(place).computeReward({ ...input, finish: 'done', turns: 1 }),
    );
    return { card, kind, verdict };
  };
  return { module, open, rollout, store };
}

it('each eval is answered and graded by the modules with which it started', async () => {
  const { module, open, rollout } = parts();
  writeFileSync(module, moduleText('red', 1));
  const first = await open('first');
  writeFileSync(module, moduleText('blue', 0.5));
  const second = await open('second');
  expect(second.catalog).not.toBe(first.catalog);
  const [red, blue] = [await rollout('first', first.catalog), await rollout('second', second.catalog)];
  expect(red).toMatchObject({ kind: 'answer', verdict: { reward: 1, reason: 'Say red, none' } });
  expect(blue).toMatchObject({ kind: 'answer', verdict: { reward: 0.5, reason: 'Say blue, none' } });
});

it('an eval that starts again keeps its digest, though the file has changed or is broken', async () => {
  const { module, open } = parts();
  writeFileSync(module, moduleText('red', 1));
  const { catalog } = await open('kept');
  writeFileSync(module, 'const broken: = 1;\n');
  await expect(open('kept', 'again')).resolves.toMatchObject({ catalog, round: 2 });
  await expect(open('new')).rejects.toThrow(/modules: .*Unexpected "=" \(.*side\.ts:1\)/);
});

it('an exception of a grader names the file and line of its module', async () => {
  const { module, open, store } = parts();
  writeFileSync(module, moduleText('red', 1));
  const { catalog } = await open('thrown');
  const attempt = { run: 'eval/thrown', rollout: 'eval/thrown/0', attempt: 1, task: 'side-test-0' };
  await store.putOnce(keys.generate(attempt, 1), {
    version: 0,
    appended: [],
    reset: false,
    sampled: [],
    logprobs: [],
    end: 'stop',
    parsed: { kind: 'no-call', content: 'throw' },
    command: { do: 'answer' },
  });
  const { provider } = world.now;
  const grading = createRewardActivities({ store, tasks: new TaskLoader(store), provider, host: 'here' });
  const input = { ...attempt, ...(catalog && { catalog }), finish: 'done' as const, turns: 1 };
  await expect(inActivity(() => grading.computeReward(input))).rejects.toThrow(
    new RegExp(`the grader threw RangeError: no red \\(${module}:15\\)`),
  );
});
