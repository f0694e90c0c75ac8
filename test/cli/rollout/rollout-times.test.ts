/** Hunts times that do not add up: moments counted twice, or in none of the parts. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { meanOf, timesLines } from '../../../cli/rollout/mean-times.ts';
import { type HistoryEvent, timesOf } from '../../../cli/rollout/rollout-times.ts';

let eventId = 0;
function event(ms: number, attributes: object): HistoryEvent {
  eventId += 1;
  return {
    eventId,
    eventTime: { seconds: Math.floor(ms / 1000), nanos: Math.round((ms % 1000) * 1e6) },
    ...attributes,
  } as unknown as HistoryEvent;
}

const scheduled = (ms: number, name: string) =>
  event(ms, { activityTaskScheduledEventAttributes: { activityType: { name } } });
const started = (ms: number, of: HistoryEvent) =>
  event(ms, { activityTaskStartedEventAttributes: { scheduledEventId: of.eventId } });
const completed = (ms: number, of: HistoryEvent) =>
  event(ms, { activityTaskCompletedEventAttributes: { scheduledEventId: of.eventId } });
const taskScheduled = (ms: number) => event(ms, { workflowTaskScheduledEventAttributes: {} });
const taskCompleted = (ms: number) => event(ms, { workflowTaskCompletedEventAttributes: {} });

it('distinguishes work, waiting, workflow tasks and standing', () => {
  const first = scheduled(100, 'generate');
  const second = scheduled(1_600, 'agentRun');
  const times = timesOf([
    event(0, { workflowExecutionStartedEventAttributes: {} }),
    taskScheduled(0),
    taskCompleted(100),
    first,
    started(300, first),
    completed(1_300, first),
    taskScheduled(1_300),
    taskCompleted(1_400),
    second,
    started(1_700, second),
    completed(2_000, second),
    taskScheduled(2_000),
    taskCompleted(2_050),
    event(2_050, { workflowExecutionCompletedEventAttributes: {} }),
  ]);
  expect(times).toEqual({
    wallMs: 2_050,
    activities: [
      { name: 'generate', count: 1, workedMs: 1_000, waitedMs: 200 },
      { name: 'agentRun', count: 1, workedMs: 300, waitedMs: 100 },
    ],
    workflowTasks: 3,
    workflowMs: 250,
    stoodMs: 200,
  });
  expect(timesLines(meanOf([times])).map((line) => line.split(/ {2,}/))).toEqual(
    expect.arrayContaining([
      ['generate', '1.0', '1.000', '48.8%'],
      ['waiting for workers', '0.300', '14.6%'],
      ['at gates, paused', '0.200', '9.8%'],
    ]),
  );
});

it("a workflow task beside an activity is the activity's time", () => {
  const only = scheduled(0, 'generate');
  const times = timesOf([
    event(0, {}),
    only,
    started(0, only),
    taskScheduled(200),
    taskCompleted(600),
    completed(1_000, only),
  ]);
  expect(times).toMatchObject({
    wallMs: 1_000,
    workflowMs: 0,
    stoodMs: 0,
    activities: [{ workedMs: 1_000, waitedMs: 0 }],
  });
});

it('adds up, whatever overlaps', () => {
  const span = fc.tuple(
    fc.integer({ min: 0, max: 5_000 }),
    fc.integer({ min: 0, max: 900 }),
    fc.integer({ min: 0, max: 900 }),
  );
  fc.assert(
    fc.property(fc.array(span, { maxLength: 12 }), fc.array(span, { maxLength: 12 }), (activities, tasks) => {
      const events = [
        event(0, {}),
        ...activities.flatMap(([at, wait, work], i) => {
          const one = scheduled(at, `activity-${i % 3}`);
          return [one, started(at + wait, one), completed(at + wait + work, one)];
        }),
        ...tasks.flatMap(([at, length]) => [taskScheduled(at), taskCompleted(at + length)]),
        event(10_000, {}),
      ];
      const mean = meanOf([timesOf(events)]);
      const parts = mean.activities.reduce(
        (sum, { seconds, waitedSeconds }) => sum + seconds + waitedSeconds,
        mean.workflowTasks.seconds + mean.stoodSeconds,
      );
      expect(parts).toBeCloseTo(mean.wallSeconds, 6);
      expect(mean.wallSeconds).toBe(10);
    }),
  );
});
