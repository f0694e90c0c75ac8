/**
 * Hunts a grader that is not notified that nobody waits for it any more: real Temporal, store and bubblewrap sandboxes,
 * with a grader that sleeps. Not asserted: other ends of an execution; see test/activities/reward/grading-ends.test.ts.
 */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { expect, it } from 'vitest';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import type { SandboxProvider } from '../../../sandboxes/sandbox.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { ScriptedEnvironment } from '../../activities/scripted-parts.ts';
import { callOf, openBench, specOf } from '../../sandboxes/harness.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const bench = await openBench();
let command = 'sleep 60';

class Sleeping extends ScriptedEnvironment {
  override async grade(_task: string, _artifact: Uint8Array, provider: SandboxProvider, id: string): Promise<Verdict> {
    const sandbox = await provider.create(specOf(id));
    const { exitCode } = await sandbox.exec(callOf(command, { callId: `${id}/run`, timeoutMs: 60_000 }));
    return { code: 'graded', reward: exitCode === 0 ? 1 : 0, passed: true, reason: '' };
  }
}
defineEnvironment(new Sleeping('sleeping'));

const world = useStoreWorld((store) => {
  const reward = createRewardActivities({
    store,
    tasks: new TaskLoader(store),
    provider: bench.provider,
    host: 'test-host',
  });
  return {
    reward: {
      computeReward: async (input) =>
        reward.computeReward({ ...input, artifact: await store.putObject(Buffer.from('a diff')) }),
    },
  };
});
const { store } = world;

/** A rollout whose grader sleeps. */
async function graded(workflowId: string) {
  const handle = await world.start('rollout', workflowId, {
    task: 'sleeping-train-0',
    policy: { uri: 'file:///p', version: 0 },
  });
  await expect.poll(() => store.leases('grader-sandbox')).toMatchObject([{ owner: workflowId }]);
  return handle;
}

it('a rollout that is cancelled while it is graded has no verdict, and its grader’s sandbox and lease are gone', async () => {
  command = 'sleep 60';
  const handle = await graded('cancelled');
  await expect.poll(() => bench.provider.list()).toEqual(['cancelled#1/grade-1']);
  await handle.cancel();
  await expect(handle.result()).rejects.toThrow('Workflow execution cancelled');
  await expect.poll(() => bench.provider.list()).toEqual([]);
  await expect.poll(() => store.leases('grader-sandbox')).toEqual([]);
  expect(await store.list('verdict:')).toEqual([]);
});

it('a worker that stops leaves its grading to another one, which attaches to it', async () => {
  command = 'echo ran >> runs; until [ -e go ]; do sleep 0.05; done; [ "$(cat runs)" = ran ]';
  const handle = await graded('handed-on');
  await expect.poll(() => bench.provider.list()).toEqual(['handed-on#1/grade-1']);
  await world.now.stop();
  expect(await bench.provider.list()).toEqual(['handed-on#1/grade-1']);
  expect(await store.leases('grader-sandbox')).toMatchObject([{ id: 'handed-on#1/grade-1' }]);
  await world.open();
  await expect.poll(() => store.begun('reward:handed-on#1')).toBe(2);
  const sandbox = await bench.provider.connect('handed-on#1/grade-1');
  await sandbox.write({ callId: 'go', path: 'go', content: new Uint8Array(), note: '' });
  sandbox.close();
  expect(await world.now.client.workflow.getHandle('handed-on').result()).toMatchObject({
    status: 'graded',
    reward: 1,
  });
  expect(handle.workflowId).toBe('handed-on');
  expect(await store.begun('reward:handed-on#1')).toBe(2);
  await expect.poll(() => bench.provider.list()).toEqual([]);
  expect(await store.leases('grader-sandbox')).toEqual([]);
});
