/** Hunts an outage of workers that is reported as a rollout that took too long: its remedy would mislead the reader. */
import { ActivityFailure, ApplicationFailure, RetryState, TimeoutFailure } from '@temporalio/common';
import { expect, it } from 'vitest';
import { classify, withinOutage } from '../../../workflows/failures/classify-failure.ts';

const failed = (cause: Error) =>
  new ActivityFailure('Activity task failed', 'computeReward', '7', RetryState.TIMEOUT, 'w', cause);
const outOf = (type: 'SCHEDULE_TO_CLOSE' | 'SCHEDULE_TO_START' | 'HEARTBEAT') =>
  failed(new TimeoutFailure(`${type} passed`, undefined, type));
const classOf = async (work: Promise<never>) => classify(await work.catch((error: unknown) => error)).failure;

it('a failure is a deadline only if the rollout’s deadline has passed', async () => {
  expect(await classOf(Promise.reject(outOf('SCHEDULE_TO_CLOSE')))).toBe('deadline');
  expect(await classOf(withinOutage(Promise.reject(outOf('SCHEDULE_TO_CLOSE'))))).toBe('timeout');
  expect(await classOf(withinOutage(Promise.reject(outOf('SCHEDULE_TO_START'))))).toBe('sandbox-lost');
  expect(await classOf(withinOutage(Promise.reject(outOf('HEARTBEAT'))))).toBe('timeout');
  expect(
    await classOf(withinOutage(Promise.reject(failed(ApplicationFailure.nonRetryable('no', 'GraderFailed'))))),
  ).toBe('grader-failed');
  expect(await withinOutage(Promise.resolve(3))).toBe(3);
});
