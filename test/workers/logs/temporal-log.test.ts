/** Hunts lines of Temporal's SDK that name no run or rollout, or the wrong one. */

import type { Context } from '@temporalio/activity';
import { describe, expect, it } from 'vitest';
import type { Logger } from '../../../workers/logs/process-log.ts';
import { fieldsOf, logsAbout, temporalLogger } from '../../../workers/logs/temporal-log.ts';

describe('the fields of a line', () => {
  it.each([
    [
      'a rollout of a step',
      { workflowId: 'train/r/step-1/t/0', workflowType: 'rollout' },
      { runId: 'r', rolloutId: 'train/r/step-1/t/0' },
    ],
    ['a batch', { workflowId: 'train/r/step-1', workflowType: 'batch' }, { runId: 'r' }],
    ['a run', { workflowId: 'train/r', workflowType: 'train' }, { runId: 'r' }],
    ['an eval', { workflowId: 'eval/mine/a/r1-c0', workflowType: 'batch' }, { runId: 'eval/mine' }],
    [
      "an eval's own words",
      { workflowId: 'eval/mine', workflowType: 'evalSweep', eval: 'mine' },
      { runId: 'eval/mine' },
    ],
    [
      'a rollout that another client started, by the input of its activity',
      { workflowId: 'any', workflowType: 'rollout', run: 'theirs', rollout: 'any' },
      { runId: 'theirs', rolloutId: 'any' },
    ],
    ['a workflow of somebody else', { workflowId: 'any', workflowType: 'other' }, {}],
    ['no workflow', {}, {}],
  ])('name %s', (_what, meta, expected) => {
    const { runId, rolloutId } = fieldsOf(meta) as { runId?: string; rolloutId?: string };
    expect({ ...(runId === undefined ? {} : { runId }), ...(rolloutId === undefined ? {} : { rolloutId }) }).toEqual(
      expected,
    );
  });

  it("keep Temporal's own under words of ours, without its tokens", () => {
    const meta = { workflowId: 'train/r', workflowType: 'train', runId: 'uuid', taskQueue: 'gpu', attempt: 2 };
    expect(fieldsOf({ ...meta, activityType: 'update', taskToken: 'secret', namespace: 'default' })).toEqual({
      runId: 'r',
      workflowId: 'train/r',
      workflowType: 'train',
      workflowRunId: 'uuid',
      queue: 'gpu',
      attempt: 2,
      activity: 'update',
    });
  });
});

it('warnings and errors alone are written, each at its level', () => {
  const written: unknown[] = [];
  const log = Object.fromEntries(
    ['info', 'warn', 'error'].map((level) => [
      level,
      (fields: object, message: string) => written.push([level, fields, message]),
    ]),
  ) as unknown as Logger;
  const logger = temporalLogger(log);
  const error = new Error('why');
  logger.info('Activity started');
  logger.warn('Activity failed', { error, workflowId: 'train/r', workflowType: 'train' });
  logger.error('Bad');
  expect(written).toEqual([
    ['warn', { error, runId: 'r', workflowId: 'train/r', workflowType: 'train' }, 'Activity failed'],
    ['error', {}, 'Bad'],
  ]);
});

it.each([
  ['an attempt', [{ run: 'r', rollout: 'any', turn: 1 }], { attempt: 1, run: 'r', rollout: 'any' }],
  ['no input', [], { attempt: 1 }],
  ['nothing', [null], { attempt: 1 }],
])('what an activity of %s logs has what its input names', async (_what, args, expected) => {
  const { inbound, outbound } = logsAbout({} as Context);
  const attributes = () => outbound?.getLogAttributes?.({ attempt: 1 }, (input) => input);
  expect(attributes()).toEqual({ attempt: 1 });
  await inbound?.execute?.({ args, headers: {} }, async () => undefined);
  expect(attributes()).toEqual(expected);
});
