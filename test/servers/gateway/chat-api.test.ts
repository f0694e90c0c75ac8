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

it('metadata has the bounds of OpenAI’s API, and the refusal says them', () => {
  const chat = (metadata: unknown) => readChatCall(bytes({ messages, metadata }));
  const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']));
  expect([pairs(16), null, { ['k'.repeat(64)]: 'é'.repeat(512) }].map((one) => chat(one).request.messages)).toEqual([
    messages,
    messages,
    messages,
  ]);
  expect(() => chat(pairs(17))).toThrow('metadata: give at most 16 pairs');
  expect(() => chat({ ['k'.repeat(65)]: 'v' })).toThrow('a key may have at most 64 characters');
  expect(() => chat({ k: 'v'.repeat(513) })).toThrow('metadata.k: give at most 512 characters');
});
