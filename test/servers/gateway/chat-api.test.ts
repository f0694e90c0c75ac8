/** Hunts requests that cost the engine without a bound, in every API of the gateway. */
import { expect, it } from 'vitest';
import { readChatCall } from '../../../servers/gateway/chat-api.ts';
import { readMessagesCall } from '../../../servers/gateway/other-apis.ts';

const bytes = (body: object) => Buffer.from(JSON.stringify(body));
const messages = [{ role: 'user', content: 'hi' }];

it('texts that end an answer are few and short, or refused by name', () => {
  const chat = (stop: unknown) => readChatCall(bytes({ messages, stop }));
  const other = (stop: unknown) =>
    readMessagesCall(bytes({ model: 'm', max_tokens: 9, messages, stop_sequences: stop }));
  const many = Array.from({ length: 17 }, (_, i) => `s${i}`);
  expect(chat(many.slice(1)).request.stop).toHaveLength(16);
  expect(other(['é'.repeat(128)]).request.stop).toHaveLength(1);
  expect(() => chat(many)).toThrow('stop: give at most 16 texts');
  expect(() => chat('é'.repeat(129))).toThrow('stop: a text may have at most 256 bytes');
  expect(() => other(many)).toThrow('stop_sequences: give at most 16 texts');
  expect(() => other(['x'.repeat(257)])).toThrow('stop_sequences: a text may have at most 256 bytes');
});

it('metadata of any form changes nothing: tracing libraries send lists and numbers', () => {
  const metadata = { tags: ['a', 'b'], trial: 3, parent: { id: 'x' } };
  expect(readChatCall(bytes({ messages, metadata })).request.messages).toEqual(messages);
});
