/**
 * Hunts inputs that no workflow can use and none refuses: an error that workflow code throws is retried forever, and
 * the caller waits as long. The server is real; callers are any Temporal client.
 */
import { WorkflowFailedError } from '@temporalio/client';
import { rootCause } from '@temporalio/common';
import { expect, it } from 'vitest';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const agent = { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 };
const policy = { uri: 'file:///p', version: 1 };
const batch = {
  run: 'r',
  name: 'b',
  step: 1,
  tasks: ['t-train-0'],
  samples: 1,
  policy,
  agent,
  seed: 1,
  dispatcher: { type: 'batch' },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
};

async function endOf(workflow: string, id: string, input: unknown): Promise<string | undefined> {
  const ended: unknown = await (await world.start(workflow, id, input)).result().catch((error: unknown) => error);
  return ended instanceof WorkflowFailedError ? rootCause(ended.cause) : `it ended with ${JSON.stringify(ended)}`;
}

it.each([
  ['tasks', undefined],
  ['tasks', 'all'],
  ['tasks', ['']],
  ['samples', 0],
  ['samples', 1.5],
  ['step', -1],
  ['run', ''],
  ['name', 3],
  ['policy', undefined],
  ['agent', null],
  ['sampling', undefined],
  ['dispatcher', undefined],
  ['stragglers.deadlineSeconds', 1e300],
  ['tasks', Array.from({ length: 20_001 }, (_, i) => `t-${i}`)],
])('a batch refuses its %s if it cannot be used', async (field, value) => {
  const [name = '', inner] = field.split('.');
  const input = { ...batch, [name]: inner === undefined ? value : { [inner]: value } };
  expect(await endOf('batch', `refused/${crypto.randomUUID()}`, input)).toContain(`${field}: `);
});

it.each([
  ['agent.toolTimeoutSeconds', { toolTimeoutSeconds: 0 }],
  ['agent.toolTimeoutSeconds', { toolTimeoutSeconds: 'long' }],
  ['agent.toolTimeoutSeconds', { toolTimeoutSeconds: 1e300 }],
  ['agent.deadlineSeconds', { deadlineSeconds: 1e300 }],
  ['agent.codec', { codec: 'xml' }],
  ['agent.reasoning', { reasoning: true }],
  ['agent.hints.sameAction', { hints: { sameAction: '3' } }],
  ['agent.hints', { hints: { stuck: 3 } }],
])('a rollout refuses its %s if it cannot be used', async (field, over) => {
  expect(
    await endOf('rollout', `refused/${crypto.randomUUID()}`, {
      task: 't-train-0',
      policy,
      agent: { ...agent, ...over },
    }),
  ).toContain(`${field}: `);
});

it('the largest allowed values work', async () => {
  const input = { task: 't-train-0', policy, agent: { ...agent, deadlineSeconds: 315_360_000 } };
  expect(await (await world.start('rollout', 'longest', input)).result()).toMatchObject({ status: 'graded' });
});
