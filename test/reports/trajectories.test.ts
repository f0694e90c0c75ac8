/** Hunts conversations without messages that the policy received, or with changed answers. */
import { TaskLoader } from '../../tasks/task-loader.ts';
import { expect, it } from 'vitest';
import { generateTurn } from '../../activities/generate/generate.ts';
import type { ActRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { trajectoryOf } from '../../reports/trajectories.ts';
import { malformedCallHint, noCallHint } from '../../agents/hints.ts';
import { call, finishCall, saying } from '../activities/scripted-parts.ts';
import { attemptOf, ended, turnInput, useWorld } from '../activities/world.ts';

const world = useWorld();
const { rollout } = attemptOf();

async function rolledOut(...turns: readonly string[]): Promise<void> {
  world.now.engine.answers = turns.map((text) => saying(text));
  for (const i of turns.keys()) {
    const { calls } = await generateTurn(turnInput(i + 1), world.now.deps, new AbortController().signal);
    const messages = [{ role: 'tool' as const, name: 'bash', content: `answer ${i + 1}` }];
    if (calls > 0) await world.now.store.putOnce<ActRecord>(keys.act(turnInput(i + 1), i + 1), { messages });
  }
  await ended(world.now.store, 0, 0, 1);
}

it('contains all messages to and from the policy, including hints', async () => {
  const cut = 'Now: <function=bash>\n<parameter=command>ls';
  await rolledOut('I think so.', cut, call('ls'), finishCall);
  const trajectory = await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) });
  expect(trajectory?.messages).toEqual([
    { role: 'user', content: 'Solve toy-train-0.' },
    { role: 'assistant', content: 'I think so.' },
    { role: 'user', content: noCallHint('function-xml') },
    { role: 'assistant', content: cut },
    { role: 'user', content: malformedCallHint('function-xml', 'The call has no closing </function>.') },
    { role: 'assistant', content: '', toolCalls: [{ name: 'bash', arguments: { command: 'ls' } }] },
    { role: 'tool', name: 'bash', content: 'answer 3' },
    { role: 'assistant', content: '', toolCalls: [{ name: 'finish', arguments: {} }] },
  ]);
  const last = world.now.engine.requests[3]?.tokens.length ?? 0;
  expect(trajectory).toMatchObject({
    policyVersions: [3],
    contextTokens: last + saying(finishCall).tokens.length,
    reward: 1,
  });
});

it('ends with the last answer of the policy if nothing followed it', async () => {
  await rolledOut('I give up.');
  expect(
    (await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) }))?.messages.at(-1),
  ).toEqual({ role: 'assistant', content: 'I give up.' });
});

it('exists only after the rollout has ended', async () => {
  expect(
    await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) }),
  ).toBeUndefined();
});
