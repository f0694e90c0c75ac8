/** Hunts an exception of a grader that no list shows, or that lacks the place where it was thrown. */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ActivityFailure } from '@temporalio/common';
import { expect, it } from 'vitest';
import type { RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { classify } from '../../../workflows/failures/classify-failure.ts';
import { attemptOf, environment, inActivity, orchestratorActivities, RUN, useWorld } from '../../activities/world.ts';

const world = useWorld();
const attempt = attemptOf();

/** The error of a module's grader, as it comes through the activity that calls it and the workflow that it fails. */
async function failureOf(source: string): Promise<string> {
  const path = join(world.now.dir, 'grader.mjs');
  writeFileSync(path, source);
  const { thrown } = (await import(path)) as { thrown: Error };
  environment.verdicts = [thrown];
  const { store, provider } = world.now;
  const artifact = await store.putObject(Buffer.from('a diff'));
  const graded = inActivity(() =>
    createRewardActivities({ store, tasks: new TaskLoader(store), provider, host: 'here' }).computeReward({
      ...attempt,
      artifact,
      finish: 'finish-tool',
      turns: 4,
    }),
  );
  return graded.then(
    () => 'nothing was thrown',
    (error: unknown) =>
      classify(
        new ActivityFailure(
          'Activity task failed',
          'computeReward',
          '1',
          'MAXIMUM_ATTEMPTS_REACHED',
          'w',
          error as Error,
        ),
      ).message,
  );
}

async function shown(...args: string[]): Promise<string> {
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      out += text;
    },
    env: { LONGHAUL_HOME: world.now.dir },
    cwd: world.now.dir,
    signal: new AbortController().signal,
  };
  await runCommandLine(args, around);
  return out;
}

it.each([
  ['short', "'it broke'"],
  ['several lines long', "'it broke\\n+ expected\\n- actual'"],
  ['very long', "'it broke ' + 'x'.repeat(5000)"],
])('a message that is %s: rollouts and trajectory show file and line', async (_name, message) => {
  const { dir, store } = world.now;
  const failure = await failureOf(`\n\nexport const thrown = new RangeError(${message});\n`);
  const place = `(${join(dir, 'grader.mjs')}:3)`;
  expect(failure).toMatch(/^the grader threw RangeError: it broke/);
  expect(failure).toContain(place);

  await store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir: dir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: dir, parameters: 1, vocabulary: 1 },
    task: { name: 'toy', train: 1, heldOut: 1 },
    tasks: someTasks,
  });
  const { rollout, task } = attempt;
  const describePolicy = async () => ({ parameters: 1, vocabulary: 1 });
  const orchestrator = orchestratorActivities({
    store,
    tasks: new TaskLoader(store),
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy,
  });
  await orchestrator.recordFailures({
    run: RUN,
    failures: [{ rollout, task, status: 'failed', attempt: 1, turns: 4, failure: 'grader-failed', message: failure }],
  });
  expect(await shown('rollouts', RUN)).toContain(place);
  expect(await shown('trajectory', rollout)).toContain(place);
});
