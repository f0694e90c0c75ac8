/** Hunts a grader's own failure that becomes a reward, and rollouts that are graded twice or end without an outcome. */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { OutcomeRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { SandboxLost, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import type { Store } from '../../../store/store.ts';
import { attemptOf, dyingAt, environment, eventLines, inActivity, useWorld } from '../world.ts';

const world = useWorld();
const attempt = attemptOf();

async function grade(store: Store = world.now.store) {
  const artifact = await world.now.store.putObject(Buffer.from('a diff'));
  const activities = createRewardActivities({
    store,
    tasks: new TaskLoader(store),
    provider: world.now.provider,
    host: 'here',
  });
  return inActivity(() => activities.computeReward({ ...attempt, artifact, finish: 'finish-tool', turns: 4 }));
}
const outcome = () => world.now.store.get<OutcomeRecord>(keys.outcome(attempt.rollout));

it('grades what was collected once, and records how the rollout ended', async () => {
  environment.verdicts = [{ code: 'graded', reward: 0.5, passed: false, reason: 'half of it' }];
  const verdict = await grade();
  expect(verdict).toEqual({ code: 'graded', reward: 0.5, passed: false, reason: 'half of it' });
  expect(await grade()).toEqual(verdict);
  expect(environment.graded).toEqual([{ artifact: 'a diff', sandbox: `${attempt.rollout}#1/grade-1` }]);
  expect(await outcome()).toEqual({
    rollout: attempt.rollout,
    task: attempt.task,
    attempt: 1,
    turns: 4,
    status: 'graded',
    reward: 0.5,
    passed: false,
    finish: 'finish-tool',
    failure: null,
    reason: 'half of it',
  });
  expect(await eventLines(world.now.store)).toEqual(['graded']);
});

it("throws a grader's own failure, records nothing, and grades again in another sandbox", async () => {
  environment.verdicts = [{ code: 'grader-failed', reason: 'the grader broke' }];
  await expect(grade()).rejects.toMatchObject({
    type: 'GraderFailed',
    message: 'the grader broke',
    nonRetryable: false,
  });
  expect(await outcome()).toBeUndefined();
  expect(await world.now.store.list('verdict:')).toEqual([]);
  expect(await eventLines(world.now.store)).toEqual([]);
  expect(await grade()).toMatchObject({ code: 'graded', reward: 1 });
  expect(environment.graded.map(({ sandbox }) => sandbox)).toEqual([
    `${attempt.rollout}#1/grade-1`,
    `${attempt.rollout}#1/grade-2`,
  ]);
});

it.each([new SandboxLost('it ended'), new SandboxUnavailable('no room')])(
  'takes %s of its own sandbox for the grader’s failure, and grades again in another one',
  async (error) => {
    environment.verdicts = [error];
    await expect(grade()).rejects.toMatchObject({ type: 'GraderFailed', message: error.message, nonRetryable: false });
    expect(await outcome()).toBeUndefined();
    expect(await grade()).toMatchObject({ code: 'graded', reward: 1 });
    expect(environment.graded.map(({ sandbox }) => sandbox)).toEqual([
      `${attempt.rollout}#1/grade-1`,
      `${attempt.rollout}#1/grade-2`,
    ]);
  },
);

it('a full disk in the grader’s own code is the disk’s failure, not the grader’s', async () => {
  try {
    writeFileSync('/dev/full', 'a report');
  } catch (error) {
    environment.verdicts = [error as Error];
  }
  await expect(grade()).rejects.toMatchObject({
    type: 'StoreFull',
    message: expect.stringContaining('No space is left') as string,
    nonRetryable: false,
  });
  expect(await outcome()).toBeUndefined();
});

it('after a crash behind the verdict writes the outcome without grading again', async () => {
  const { store } = world.now;
  await expect(grade(dyingAt(store, 'putOnce', 'outcome:'))).rejects.toThrow('killed here');
  expect([await outcome(), (await store.list('verdict:')).length]).toEqual([undefined, 1]);
  await grade();
  expect(await outcome()).toMatchObject({ status: 'graded', reward: 1, passed: true });
  expect(environment.graded.length).toBe(1);
  expect(await eventLines(store)).toEqual(['graded']);
});

it('a verdict that comes after the failure was recorded changes nothing, and reports this', async () => {
  const failed: OutcomeRecord = {
    rollout: attempt.rollout,
    task: attempt.task,
    attempt: 1,
    turns: 4,
    status: 'failed',
    reward: null,
    passed: false,
    finish: null,
    failure: 'straggler',
    reason: 'given up',
  };
  await world.now.store.putOnce(keys.outcome(attempt.rollout), failed);
  await expect(grade()).rejects.toMatchObject({
    type: 'FailedBefore',
    nonRetryable: true,
    message: expect.stringContaining('failed (straggler)'),
  });
  expect(await outcome()).toEqual(failed);
  expect(await eventLines(world.now.store)).toEqual([]);
});
