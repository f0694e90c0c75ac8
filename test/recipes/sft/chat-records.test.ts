/** Hunts records that are read as something else than they say, and bad ones that are not named by their field. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Chat, chatSchema, type RecordForm } from '../../../recipes/sft/chat-records.ts';
import { readRecords } from '../../../tasks/data/read-records.ts';

const form: RecordForm = { messages: 'messages', prompt: 'prompt', answer: 'answer', loss: 'all' };
const read = (record: unknown, change: Partial<RecordForm> = {}): Chat =>
  chatSchema({ ...form, ...change }).parse(record);
const trained = ({ turns }: Chat): boolean[] => turns.map((turn) => turn.trained);

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string, rest: object = {}) => ({ role: 'assistant', content, ...rest });

it('a pair is a message of the user and one of the assistant, from the fields that the settings name', () => {
  const chat = {
    turns: [
      { message: user('1 + 1?'), trained: false },
      { message: assistant('2'), trained: true },
    ],
    tools: [],
  };
  expect(read({ prompt: '1 + 1?', answer: '2', id: 7 })).toEqual(chat);
  expect(read({ question: '1 + 1?', answer: '2' }, { prompt: 'question' })).toEqual(chat);
  expect(read({ prompt: [user('1 + 1?')], answer: [assistant('2')] })).toEqual(chat);
});

it('the assistant is trained in all messages, in the last one, or where no weight is 0', () => {
  const messages = [{ role: 'system', content: 's' }, user('a'), assistant('b'), user('c'), assistant('d'), user('e')];
  expect(trained(read({ messages }))).toEqual([false, false, true, false, true, false]);
  expect(trained(read({ messages }, { loss: 'last' }))).toEqual([false, false, false, false, true, false]);
  const weighted = [user('a'), assistant('b', { weight: 0 }), user('c'), assistant('d', { weight: 1 })];
  expect(trained(read({ messages: weighted }))).toEqual([false, false, false, true]);
});

const call = (id: string, name: string, args: unknown) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});

it('calls keep how their arguments were written, and answers get the name of their call', () => {
  const messages = [
    user('look'),
    assistant('', {
      content: null,
      tool_calls: [call('x', 'look', '{"depth": 1.0}'), call('y', 'list', { all: true })],
    }),
    { role: 'tool', tool_call_id: 'y', content: 'two' },
    { role: 'tool', content: 'one', name: 'mine' },
    {
      role: 'developer',
      content: [
        { type: 'text', text: 'be ' },
        { type: 'text', text: 'brief' },
      ],
    },
    assistant('done', { reasoning_content: 'so' }),
  ];
  const schema = { name: 'look', description: 'Looks.', parameters: { type: 'object' } };
  const { turns, tools } = read({ messages, tools: JSON.stringify([{ type: 'function', function: schema }]) });
  expect(turns.map(({ message }) => message)).toEqual([
    user('look'),
    {
      role: 'assistant',
      content: '',
      toolCalls: [
        { name: 'look', arguments: { depth: 1 }, written: '{"depth":1.0}' },
        { name: 'list', arguments: { all: true } },
      ],
    },
    { role: 'tool', name: 'list', content: 'two' },
    { role: 'tool', name: 'mine', content: 'one' },
    { role: 'system', content: 'be brief' },
    assistant('done'),
  ]);
  expect(turns[5]).toMatchObject({ reasoning: 'so' });
  expect(tools).toEqual([{ type: 'function', function: schema }]);
  expect(read({ prompt: 'p', answer: 'a', tools: [schema] }).tools).toEqual(tools);
});

it('Parquet: a column that a row does not use is null', async () => {
  const { rows } = await readRecords(join(import.meta.dirname, 'fixtures', 'chats.parquet'), chatSchema(form));
  expect(rows.map(({ turns }) => turns.length)).toEqual([2, 2, 2, 2]);
  expect(rows[3]).toMatchObject({
    turns: [{}, { message: { toolCalls: [{ name: 'look', arguments: { path: 'a', depth: 1 } }] }, trained: true }],
    tools: [{ function: { name: 'look' } }],
  });
});

it.each<[unknown, string, RegExp]>([
  [{ text: 'x' }, 'prompt', /give a text, or a list of messages/],
  [{ prompt: 'x' }, 'answer', /give a text/],
  [{ messages: [] }, 'messages', /at least one message/],
  [{ messages: 'hello' }, 'messages', /array/],
  [{ messages: [user('a'), { role: 'bot', content: 'b' }] }, 'messages.1.role', /./],
  [{ messages: [user('a'), assistant('b', { weight: 0.5 })] }, 'messages.1.weight', /0 \(not trained\) or 1/],
  [{ messages: [user('a'), { role: 'assistant', content: 3 }] }, 'messages.1.content', /text/],
  [{ messages: [user('a'), assistant('')] }, 'messages.1', /empty/],
  [{ messages: [assistant('a')] }, 'messages.0', /another role/],
  [{ messages: [user('a')] }, 'messages', /no message of the assistant is trained/],
  [{ prompt: 'a', answer: [user('b')] }, 'answer', /no message of the assistant/],
  [
    { messages: [user('a'), assistant('', { tool_calls: [call('x', 'look', '{"a":')] })] },
    'messages.1.tool_calls.0.function.arguments',
    /give a JSON object: it is not JSON/,
  ],
  [{ prompt: 'a', answer: 'b', tools: [{ description: 'no name' }] }, 'tools.0', /a function with its name/],
])('%j is refused at %s', (record, field, message) => {
  const issues = chatSchema(form).safeParse(record).error?.issues ?? [];
  expect(issues[0]?.path.join('.')).toBe(field);
  expect(issues[0]?.message).toMatch(message);
});
