/**
 * Hunts rollouts that lose their sandbox, or give up, because the server of their policy is down for a while; and work
 * that starts for an endpoint whose key cannot work. On real Temporal; the activities are scripted.
 */
import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { expect, it } from 'vitest';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { EndpointPolicy } from '../../../protocol/policy.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import { sandboxLost, type Script, waitsForDisk } from '../../support/scripted-activities.ts';
import { startLoopback } from '../../support/endpoint/http-server.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld();
const down = () => ApplicationFailure.create({ message: 'connection refused', type: 'EndpointUnavailable' });
let serial = 0;
/** `script` is for this rollout alone: the tests run beside each other, since they do little but wait. */
const begin = async (script: Script, over: object = {}, agent: object = {}) => {
  const id = `d${serial++}`;
  const part = world.part(id, script);
  const endpoint = { baseUrl: 'http://127.0.0.1:9/v1', model: 'm', ...over };
  return { part, handle: await world.start('rollout', id, { task: 't-train-0', policy: { endpoint }, agent }) };
};
const rollOut = async (script: Script, over: object = {}, agent: object = {}) => {
  const { part, handle } = await begin(script, over, agent);
  return { part, result: (await handle.result()) as RolloutResult };
};

it.concurrent('the sandbox is renewed for as long as the server is down, and the rollout continues in it', async () => {
  let asked = 0;
  const { part, result } = await rollOut({
    ttlSeconds: () => 3,
    before: (activity) => {
      if (activity === 'generate' && (asked += 1) <= 4) throw down();
    },
  });
  expect(result).toMatchObject({ status: 'graded', attempt: 1, turns: 2 });
  expect(part.count('holdSandbox')).toBeGreaterThan(1);
  expect(part.count('prepare')).toBe(1);
});

it.concurrent('patience ends: the rollout fails with the server’s failure, and keeps no sandbox', async () => {
  const begun = Date.now();
  const script: Script = {
    ttlSeconds: () => 3,
    before: (activity) => {
      if (activity === 'generate') throw down();
    },
  };
  const { part, result } = await rollOut(script, { timeoutSeconds: 4, patienceSeconds: 5 });
  expect(result).toMatchObject({ status: 'failed', failure: 'endpoint-unavailable' });
  expect(result.reward).toBeUndefined();
  expect(Date.now() - begun).toBeGreaterThan(3000);
  expect(part.live()).toBe(0);
});

it.concurrent('a server that takes a request and never answers is down as well, whatever the try that patience ends in', async () => {
  const server = await startLoopback(
    (_, signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(null))),
  );
  const client = new EndpointClient({});
  const script: Script = {
    before: async (activity, input) => {
      if (activity !== 'generate') return;
      const { endpoint } = (input as { readonly policy?: EndpointPolicy }).policy ?? { endpoint: undefined };
      if (!endpoint) throw new TypeError('The policy has no endpoint');
      const call = { messages: [], tools: [], sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 1 } };
      await client.chat(endpoint, call, Context.current().cancellationSignal);
    },
  };
  const { part, result } = await rollOut(script, { baseUrl: server.baseUrl, timeoutSeconds: 6, patienceSeconds: 8 });
  expect(result).toMatchObject({
    status: 'failed',
    failure: 'endpoint-unavailable',
    message: expect.stringContaining('patienceSeconds, which is 8 s') as string,
  });
  expect(server.asked.length).toBeGreaterThan(1);
  expect(part.live()).toBe(0);
  await server.close();
});

it.concurrent('a full disk in the middle of an attempt, and between two, spends no patience with the server', async () => {
  let tries = 0;
  const script: Script = {
    before: (activity, { turn }) => {
      if (activity !== 'generate') return undefined;
      if (turn === 1) return waitsForDisk(3);
      if ((tries += 1) > 1) return undefined;
      throw ApplicationFailure.create({ message: 'no room', type: 'StoreFull', nextRetryDelay: '3s' });
    },
  };
  const { result } = await rollOut(script, { timeoutSeconds: 1, patienceSeconds: 2 });
  expect(result).toMatchObject({ status: 'graded', attempt: 1, turns: 2 });
  expect(tries).toBe(2);
});

it.concurrent('a disk that stays full for longer than patience holds the rollout, and blames no server', async () => {
  let [full, tries] = [true, 0];
  const script: Script = {
    before: (activity) => {
      if (activity !== 'generate' || !full) return;
      const nextRetryDelay = (tries += 1) === 1 ? '3s' : '20ms';
      throw ApplicationFailure.create({ message: 'no room', type: 'StoreFull', nextRetryDelay });
    },
  };
  const { handle } = await begin(script, { timeoutSeconds: 1, patienceSeconds: 2 });
  const held = async () => (await handle.query<RolloutState>('state')).held;
  await expect.poll(held).toMatchObject({ failure: 'store-unavailable', message: 'no room' });
  full = false;
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1 });
});

it.concurrent("the rollout's own time, if it is shorter, is still a deadline", async () => {
  const script: Script = {
    before: (activity) => {
      if (activity === 'generate') return new Promise<void>((resolve) => setTimeout(resolve, 10_000));
    },
  };
  const { result } = await rollOut(script, { timeoutSeconds: 30, patienceSeconds: 60 }, { deadlineSeconds: 3 });
  expect(result).toMatchObject({ status: 'failed', failure: 'deadline' });
});

it.concurrent('a sandbox that is lost meanwhile is detected, and the rollout starts again', async () => {
  let asked = 0;
  let lost = false;
  const { result } = await rollOut({
    ttlSeconds: () => 3,
    before: (activity, { attempt }) => {
      if (activity === 'generate' && (asked += 1) <= 4) throw down();
      if (activity === 'holdSandbox' || (lost && activity === 'agentRun' && attempt === 1)) {
        lost = true;
        throw sandboxLost();
      }
    },
  });
  expect(result).toMatchObject({ status: 'graded', attempt: 2 });
});

it.concurrent('a key that cannot work is refused before a sandbox is made, and a server that is down is not', async () => {
  const refused: Script = {
    before: (activity) => {
      if (activity === 'checkEndpoint')
        throw ApplicationFailure.nonRetryable('policy.endpoint.apiKeyEnv: "KEY" cannot be used', 'UserInputError');
    },
  };
  const { part, result } = await rollOut(refused, { apiKeyEnv: 'KEY' });
  expect(result).toMatchObject({
    status: 'failed',
    failure: 'bad-input',
    message: expect.stringContaining('apiKeyEnv') as string,
  });
  expect(part.calls).toEqual(['checkEndpoint']);
  const later = await rollOut({
    before: (activity) => {
      if (activity === 'checkEndpoint') throw ApplicationFailure.nonRetryable('out of order', 'Error');
    },
  });
  expect(later.result).toMatchObject({ status: 'graded' });
});
