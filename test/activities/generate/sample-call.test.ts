/** Hunts histories that are matched with the wrong turn, or encoded again: digests of beginnings, and calls of a scripted engine. */
import { describe, expect, it } from 'vitest';
import { askedDigest, prefixDigests, saidAfter } from '../../../activities/generate/call-digests.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import { type EarlierCalls, idsAfter, matchOf, sampleCall } from '../../../activities/generate/sample-call.ts';
import type { CallRequest } from '../../../protocol/gateway.ts';
import type { Message } from '../../../protocol/message.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { mergeTransitions, transitionsOf } from '../../../trainer/data/merge-transitions.ts';
import { characterTokenizer, saying } from '../scripted-parts.ts';
import { attemptOf, turnInput, useWorld } from '../world.ts';

const user = (content: string): Message => ({ role: 'user', content });
const said = (content: string, given?: Record<string, unknown>): Message => ({
  role: 'assistant',
  content,
  ...(given && { toolCalls: [{ name: 'bash', arguments: given }] }),
});

describe('digests', () => {
  const of = (...messages: Message[]) => askedDigest({ messages, tools: [] });

  it('are equal after the round trip of an API, and differ for everything else', () => {
    expect(of(user('a'), said(' x \n', { a: 1, b: [2] }))).toBe(of(user('a'), said('x', { b: [2], a: 1 })));
    const all = [
      of(user('a')),
      of(user('a ')),
      of({ role: 'system', content: 'a' }),
      of(said('a')),
      of(user('a'), user('')),
      of(said('', { a: 1 })),
      of(said('', { a: '1' })),
      of(said('', { a: [1] })),
      of({ role: 'tool', name: 'bash', content: 'a' }),
      askedDigest({
        messages: [user('a')],
        tools: [{ type: 'function', function: { name: 'f', description: '', parameters: {} } }],
      }),
    ];
    expect(new Set(all).size).toBe(all.length);
  });

  it('of a beginning are those of the shorter conversation', () => {
    const messages = [user('a'), said('b'), user('c')];
    const digests = prefixDigests({ messages, tools: [] });
    expect(digests).toHaveLength(4);
    expect(digests[2]).toBe(saidAfter(of(user('a')), said('b')));
  });
});

it('the longest beginning is continued, of equal ones the first; an answer that nothing follows is none', () => {
  const turn = (digest: string, follows: number, ids: number[]) =>
    ({ call: { said: digest, follows }, appended: ids, sampled: [ids.length] }) as unknown as GenerateRecord;
  const earlier = new Map([
    [1, turn('b', 0, [1, 2])],
    [2, turn('b', 0, [9, 9])],
    [3, turn('d', 1, [3])],
    [4, turn('f', 3, [4])],
  ]) as unknown as EarlierCalls;
  expect(matchOf(['t', 'a', 'b', 'c', 'd', 'e'], earlier)).toEqual({ turn: 3, messages: 4 });
  expect(matchOf(['t', 'a', 'b', 'x'], earlier)).toEqual({ turn: 1, messages: 2 });
  expect(matchOf(['t', 'a', 'b'], earlier)).toBeUndefined();
  expect(matchOf(['t'], earlier)).toBeUndefined();
  expect(idsAfter(4, earlier)).toEqual([1, 2, 2, 3, 1, 4, 1]);
  expect(idsAfter(0, earlier)).toEqual([]);
});

describe('a call', () => {
  const world = useWorld();

  async function ask(turn: number, request: CallRequest, over: Parameters<typeof turnInput>[1] = {}) {
    const { store, deps } = world.now;
    const call = `c${turn}`;
    const asked = askedDigest(request);
    const input = turnInput(turn, { call: { call, asked, twins: [] }, noiseKey: 'r', ...over });
    await store.putOnceWithObject(keys.call(attemptOf(), call), Buffer.from(JSON.stringify(request)), (artifact) => ({
      artifact,
      asked,
      at: '',
    }));
    const outcome = await generateTurn(input, deps, new AbortController().signal);
    return { outcome, record: (await store.get<GenerateRecord>(keys.generate(attemptOf(), turn)))! };
  }

  it('continues what was sampled after a message that was cut, with the end that it lacks', async () => {
    const { engine } = world.now;
    engine.answers = [saying('cut', 'length'), saying('whole')];
    await ask(1, { messages: [user('a')], tools: [], maxTokens: 3 });
    expect(engine.requests[0]?.sampling.maxTokens).toBe(3);
    const { record } = await ask(2, { messages: [user('a'), said('cut'), user('b')], tools: [] });
    const tokenizer = characterTokenizer();
    const first = [...(engine.requests[0]?.tokens ?? []), ...saying('cut', 'length').tokens];
    expect(engine.requests[1]?.tokens).toEqual([...first, ...tokenizer.encode('$\nuser:b$\nassistant:')]);
    expect(record.call).toMatchObject({ follows: 1, promptTokens: engine.requests[1]?.tokens.length });
  });

  it('of a text that ends it keeps the text from the agent, and the ids for training', async () => {
    const { engine } = world.now;
    engine.answers = [{ ...saying('Thought<end>', 'stop'), stopText: '<end>' }];
    const { record } = await ask(1, { messages: [user('a')], tools: [], stop: ['<end>'] });
    expect(engine.requests[0]?.sampling.stop).toEqual(['<end>']);
    expect(record.parsed.content).toBe('Thought');
    expect(record.sampled).toEqual(saying('Thought<end>').tokens);
  });

  it('that does not fit, or that the template refuses, is a turn without tokens and no failure', async () => {
    const { engine, parts } = world.now;
    const long = await ask(1, { messages: [user('x'.repeat(90))], tools: [] }, { maxContextTokens: 50 });
    expect(long.record).toMatchObject({
      end: 'context',
      sampled: [],
      call: { refused: { code: 'context_length_exceeded' } },
    });
    Object.assign(await parts.tokenizerOf(''), {
      renderChat: () => {
        throw new Error('roles must alternate');
      },
    });
    const refused = await ask(2, { messages: [said('x')], tools: [] });
    expect(refused.record).toMatchObject({ end: 'refused', call: { refused: { code: 'invalid_messages' } } });
    expect(engine.requests).toEqual([]);
    expect(transitionsOf([long.record, refused.record])).toEqual([]);
  });

  it('counts tools and arguments before it encodes them', async () => {
    const { engine } = world.now;
    const parameters = { type: 'object', description: 'x'.repeat(2000) };
    const tools = [{ type: 'function' as const, function: { name: 'f', description: '', parameters } }];
    const first = await ask(1, { messages: [user('a')], tools }, { maxContextTokens: 100 });
    const called = [said('', { a: 'x'.repeat(2000) }), user('a')];
    const second = await ask(2, { messages: called, tools: [] }, { maxContextTokens: 100 });
    for (const { record } of [first, second])
      expect(record.call?.refused?.message).toContain('resulted in many more tokens');
    expect(engine.requests).toEqual([]);
  });

  it('that a text should end is refused where the sampler knows no such texts', async () => {
    const { store } = world.now;
    const request = { messages: [user('a')], tools: [], stop: ['x'] };
    const key = keys.call(attemptOf(), 'c');
    await store.putOnceWithObject(key, Buffer.from(JSON.stringify(request)), (artifact) => ({
      artifact,
      asked: 'x',
      at: '',
    }));
    const input = { ...turnInput(1), call: { call: 'c', asked: 'x', twins: [] } };
    const ask = () => Promise.reject(new Error('asked'));
    const record = await sampleCall(input, characterTokenizer(), { store }, ask, false);
    expect(record.call?.refused).toMatchObject({ code: 'unsupported_stop', message: expect.stringMatching(/^stop:/u) });
  });

  it('never gets the turn of another call', async () => {
    const { engine, deps } = world.now;
    engine.answers = [saying('a')];
    await ask(1, { messages: [user('a')], tools: [] });
    const other = turnInput(1, { call: { call: 'other', asked: 'x', twins: [] }, noiseKey: 'r' });
    const { signal } = new AbortController();
    await expect(generateTurn(other, deps, signal)).rejects.toThrow('is the turn of c1');
  });

  it('has a noise of its prompt, and of how often it was asked', async () => {
    const { engine } = world.now;
    engine.answers = ['a', 'b', 'c', 'd'].map((text) => saying(text));
    const request = { messages: [user('same')], tools: [] };
    await ask(1, request);
    await ask(2, { messages: [user('other')], tools: [] });
    await ask(3, request);
    const noises = engine.requests.map(({ noiseKey }) => noiseKey);
    const asked = askedDigest(request);
    expect([noises[0], noises[2]]).toEqual([`r/${asked}/0`, `r/${asked}/1`]);
    expect(new Set(noises).size).toBe(3);
  });

  it('of a branch is a sequence of its own, and trains no token twice', async () => {
    const { engine } = world.now;
    engine.answers = ['one', 'left', 'right', 'on'].map((text) => saying(text));
    const begun = [user('a'), said('one')];
    const { record: first } = await ask(1, { messages: [user('a')], tools: [] });
    const { record: left } = await ask(2, { messages: [...begun, user('l')], tools: [] });
    const { record: right } = await ask(3, { messages: [...begun, user('r')], tools: [] });
    const { record: on } = await ask(4, { messages: [...begun, user('l'), said('left'), user('m')], tools: [] });
    expect([left, right, on].map(({ call }) => call?.follows)).toEqual([1, 1, 2]);
    const merged = mergeTransitions(transitionsOf([first, left, right, on]));
    const trained = merged.map(({ tokens, mask }) =>
      characterTokenizer().decode(tokens.filter((_, i) => mask[i] === 1)),
    );
    expect(trained).toEqual(['one$left$on$', 'right$']);
  });
});
