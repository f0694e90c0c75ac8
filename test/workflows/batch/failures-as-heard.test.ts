/**
 * Hunts a rollout that its batch has counted as failed and that is graded later, by a worker that was given up:
 * failures are recorded while the batch runs. On real Temporal; the activities are scripted.
 */

import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { BatchResult } from '../../../protocol/batch.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const broken = () => ApplicationFailure.nonRetryable('no such task', 'UserInputError');
const input = (over: object) => ({
  run: 'heard',
  name: 'b',
  step: 1,
  tasks: ['t-train-0', 't-train-1'],
  samples: 2,
  policy: { uri: 'file:///p', version: 1 },
  agent: { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher: { type: 'batch' },
  ...over,
});

it('a failure is recorded before the other rollouts of its batch have ended', async () => {
  const heard: boolean[] = [];
  world.script = {
    before: async (activity, { rollout }) => {
      if (activity !== 'agentRun') return;
      if (rollout?.endsWith('t-train-1/0')) throw broken();
      for (let tries = 0; tries < 200 && world.count('recordFailures') === 0; tries++) await sleep(50);
      heard.push(world.count('recordFailures') === 1);
    },
  };
  const result = (await (await world.start('batch', 'heard/early', input({}))).result()) as BatchResult;
  expect(result).toMatchObject({ rollouts: 4, graded: 3, failures: { 'bad-input': 1 } });
  expect(new Set(heard)).toEqual(new Set([true]));
  expect(world.count('recordFailures')).toBe(1);
});

it('failures that arrive together are recorded together', async () => {
  world.script = {
    before: async (activity, { rollout }) => {
      if (activity === 'recordFailures') await sleep(500);
      if (activity === 'agentRun' && !rollout?.endsWith('t-train-0/0')) throw broken();
    },
  };
  const tasks = Array.from({ length: 10 }, (_, i) => `t-train-${i}`);
  const result = (await (
    await world.start('batch', 'heard/many', input({ tasks, samples: 6 }))
  ).result()) as BatchResult;
  expect(result).toMatchObject({ rollouts: 60, graded: 1, failures: { 'bad-input': 59 } });
  expect(world.count('recordFailures')).toBeLessThan(30);
});
