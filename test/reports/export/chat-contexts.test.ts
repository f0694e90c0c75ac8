/** Hunts chats that mix agents, lose an opening, or end with what the policy never saw. */
import { expect, it } from 'vitest';
import { contextsIn } from '../../../reports/export/chat-contexts.ts';
import { chatMessages } from '../../../reports/export/formats/chat-record.ts';
import type { Said } from '../../../protocol/transcript.ts';
import { withSummary } from '../../../protocol/transcript.ts';

const user = (content: string, place: Partial<Said> = {}) => ({ role: 'user', content, ...place }) as Said;
const said = (content: string, place: Partial<Said> = {}) => ({ role: 'assistant', content, ...place }) as Said;
const sub = { agentPath: ['buyer@1'] };

it('each agent and each segment is a chat of its own, and ends with what was said last', () => {
  const opening = [user('Do it.')];
  const [summary] = withSummary([], 'half done');
  const contexts = contextsIn([
    ...opening,
    said('I ask.'),
    user('Buy.', sub),
    said('Bought.', sub),
    user('Answer of the agent buyer:\nBought.'),
    said('Enough.'),
    { ...summary, segment: 2 } as Said,
    said('Done.', { segment: 2 }),
    user('nobody reads this', { segment: 2 }),
  ]);
  const texts = contexts.map(({ messages }) => messages.map(({ content }) => content));
  expect(texts).toEqual([
    ['Do it.', 'I ask.', 'Answer of the agent buyer:\nBought.', 'Enough.'],
    ['Buy.', 'Bought.'],
    [withSummary(opening, 'half done')[0]?.content, 'Done.'],
  ]);
  expect(contexts.map(({ agentPath, segment }) => [agentPath, segment])).toEqual([
    [undefined, undefined],
    [['buyer@1'], undefined],
    [undefined, 2],
  ]);
});

it('a context in which nothing was said is left out', () => {
  expect(contextsIn([user('Do it.')])).toEqual([]);
});

it('of ephemeral messages a chat has those that its last turn saw', () => {
  const prompt = (content: string) => ({ ...user(content), ephemeral: true }) as Said;
  const [chat] = contextsIn([
    user('Do it.'),
    prompt('1'),
    said('a'),
    user('seen'),
    prompt('2'),
    said('b'),
    prompt('3'),
  ]);
  expect(chat?.messages.map(({ content }) => content)).toEqual(['Do it.', 'a', 'seen', '2', 'b']);
});

it('answers of tools have the ids of the calls before them, and numbers stay as they were written', () => {
  const calls = [
    { name: 'a', arguments: { x: 12 }, written: '{"x":12.0}' },
    { name: 'b', arguments: {} },
  ];
  expect(
    chatMessages([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: '', toolCalls: calls },
      { role: 'tool', name: 'a', content: '1' },
      { role: 'tool', name: 'b', content: '2' },
      { role: 'assistant', content: '' },
    ]),
  ).toEqual([
    { role: 'user', content: 'go' },
    {
      role: 'assistant',
      content: '',
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'a', arguments: '{"x":12.0}' } },
        { id: 'call_2', type: 'function', function: { name: 'b', arguments: '{}' } },
      ],
    },
    { role: 'tool', content: '1', name: 'a', tool_call_id: 'call_1' },
    { role: 'tool', content: '2', name: 'b', tool_call_id: 'call_2' },
    { role: 'assistant', content: '', weight: 0 },
  ]);
});
