/**
 * Hunts turns that are sampled twice, contexts that do not extend what was sampled, and endings read wrongly. Not
 * asserted: what the engine samples.
 */
import { fileUri } from '../../../protocol/policy-uri.ts';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type EmbeddedParts, embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { generateTurn } from '../../../activities/generate/generate.ts';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { malformedCallHint, noCallHint } from '../../../agents/hints.ts';
import type { GenerateResult } from '../../../trainer/generate-request.ts';
import type { GenerateInput } from '../../../protocol/stages.ts';
import { ContextTooLong } from '../../../trainer/sampler/generation.ts';
import { call, characterTokenizer, finishCall, saying } from '../scripted-parts.ts';
import { eventLines, RUN, turnInput, useWorld } from '../world.ts';

const world = useWorld();
const { signal } = new AbortController();
const encode = (text: string) => characterTokenizer().encode(text);
const PROMPT = encode('user:Solve toy-train-0.$\nassistant:');

const asRecorded = ({ tokens, logprobs }: GenerateResult) => ({ sampled: tokens, logprobs });
const generate = (input: GenerateInput) => generateTurn(input, world.now.deps, signal);
const recordOf = (turn: number) => world.now.store.get<GenerateRecord>(keys.generate(turnInput(turn), turn));
const answered = (turn: number, content: string) =>
  world.now.store.putOnce<ActRecord>(keys.act(turnInput(turn), turn), {
    messages: [{ role: 'tool', name: 'bash', content }],
  });

describe('a turn', () => {
  it('asks the engine for the policy, the noise and the sampling that it was given', async () => {
    world.now.engine.answers = [saying(call('ls'))];
    const input = turnInput(1);
    const outcome = await generate(input);
    const { rollout, sampling, noiseKey } = input;
    expect(world.now.engine.requests).toEqual([
      {
        policy: { dir: '/policy', version: 3, digest: 'files of /policy' },
        cacheKey: rollout,
        tokens: PROMPT,
        sampling,
        stopTokenIds: [0],
        noiseKey,
      },
    ]);
    expect(world.now.engine.signals).toEqual([signal]);
    const sampledTokens = saying(call('ls')).tokens.length;
    expect(outcome).toEqual({
      kind: 'act',
      calls: 1,
      contextTokens: PROMPT.length + sampledTokens,
      sampledTokens,
      line: 'bash ls',
    });
    expect(await recordOf(1)).toMatchObject({
      version: 3,
      appended: PROMPT,
      reset: false,
      ...asRecorded(saying(call('ls'))),
    });
  });

  it.each([0.6, 0])('keeps the temperature %d that it was sampled at', async (temperature) => {
    world.now.engine.answers = [saying(call('ls'))];
    await generate(turnInput(1, { sampling: { ...turnInput(1).sampling, temperature } }));
    expect((await recordOf(1))?.temperature).toBe(temperature);
  });

  it('records the cost of the call, if the engine reports it', async () => {
    const cost = { queueSeconds: 0.1, seconds: 0.5, cachedTokens: 3, batchSize: 2 };
    world.now.engine.cost = cost;
    world.now.engine.answers = [saying(call('ls'))];
    await generate(turnInput(1));
    expect((await recordOf(1))?.cost).toEqual(cost);
  });

  it('names the worker with its context only if there are several, and the engine is ours', async () => {
    world.now.engine.answers = [saying(call('ls'))];
    const named = await generateTurn(turnInput(1), { ...world.now.deps, worker: 'host/gpu-2' }, signal);
    expect(named.worker).toBe('host/gpu-2');
    expect(await generate(turnInput(1))).not.toHaveProperty('worker');
  });

  it('is sampled once: a repeated call returns what was recorded, and its event is there once', async () => {
    world.now.engine.answers = [saying(call('ls')), saying(finishCall)];
    const first = await generate(turnInput(1));
    expect(await generate(turnInput(1))).toEqual(first);
    expect(world.now.engine.requests.length).toBe(1);
    expect(await eventLines(world.now.store, 'turn')).toEqual(['turn 1']);
    expect((await eventLines(world.now.store, 'spent')).length).toBe(1);
    expect(await world.now.store.repeats()).toEqual({ model: 0 });
  });

  it('that two executions sample at once is that of the first to end, for both', async () => {
    const held = [Promise.withResolvers<GenerateResult>(), Promise.withResolvers<GenerateResult>()] as const;
    world.now.engine.answers = [() => held[0].promise, () => held[1].promise];
    const attempts = [generate(turnInput(1)), generate(turnInput(1))] as const;
    held[1].resolve(saying(finishCall));
    const second = await attempts[1];
    held[0].resolve(saying(call('ls')));
    expect(second).toMatchObject({ kind: 'finish', calls: 0 });
    expect(await attempts[0]).toEqual(second);
    expect((await recordOf(1))?.sampled).toEqual(saying(finishCall).tokens);
    expect(await eventLines(world.now.store, 'turn')).toEqual(['turn 1']);
    expect((await eventLines(world.now.store, 'spent')).length).toBe(1);
    expect(await world.now.store.repeats()).toEqual({ model: 1 });
  });

  it('of another policy is refused, not returned as the requested one', async () => {
    world.now.engine.answers = [saying(call('ls')), saying(finishCall)];
    await generate(turnInput(1));
    const refused = generate(turnInput(1, { policy: { uri: 'file:///other', version: 4 } }));
    await expect(refused).rejects.toMatchObject({ name: 'UserInputError', field: 'policy.version', value: 4 });
    expect(world.now.engine.requests.length).toBe(1);
    expect((await recordOf(1))?.version).toBe(3);
  });

  it('of another directory, or of files that were overwritten, is refused; missing files change nothing', async () => {
    world.now.engine.answers = [saying(call('ls'))];
    const first = await generate(turnInput(1));
    const elsewhere = generate(turnInput(1, { policy: { uri: 'file:///other', version: 3 } }));
    await expect(elsewhere).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'policy',
      remedy: expect.stringContaining('sampled by other files') as string,
    });
    const told = (digestOf: EmbeddedParts['digestOf']) =>
      generateTurn(turnInput(1), { ...world.now.deps, ...embeddedOnly({ ...world.now.parts, digestOf }) }, signal);
    await expect(told(async () => 'other files')).rejects.toMatchObject({ field: 'policy' });
    expect(await told(() => Promise.reject(new Error('gone')))).toEqual(first);
    expect(world.now.engine.requests.length).toBe(1);
  });

  const ofFolder = (input: GenerateInput) =>
    generateTurn(
      input,
      { ...world.now.deps, ...embeddedOnly({ ...world.now.parts, digestOf: (dir) => readdir(dir).then(String) }) },
      signal,
    );

  it.each([
    ['was known by its files', { policy: { uri: 'file:///gone', version: 3, digest: 'of before' } }],
    ['has sampled a turn', { turn: 2 }],
    ['sampled an earlier attempt', { attempt: 2 }],
    ['is that of a run', {}],
  ])('a policy whose folder is gone is a torn checkpoint, where it %s', async (where, over) => {
    if (where === 'is that of a run') await world.now.store.putOnce(keys.run(RUN), { run: RUN });
    await expect(
      ofFolder(turnInput(1, { policy: { uri: 'file:///gone', version: 3 }, ...over })),
    ).rejects.toMatchObject({ name: 'CheckpointTorn', dir: '/gone' });
  });

  it('a folder that never existed is a wrong input: nobody could restore it', async () => {
    const mistyped = ofFolder(turnInput(1, { policy: { uri: 'file:///typo', version: 0 } }));
    await expect(mistyped).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'policy.uri',
      value: 'file:///typo',
    });
  });

  it('a folder that exists and lacks a file is a torn checkpoint', async () => {
    const { dir, deps, parts } = world.now;
    const cut = generateTurn(
      turnInput(1, { policy: { uri: fileUri(dir), version: 0 } }),
      { ...deps, ...embeddedOnly({ ...parts, digestOf: () => readdir(join(dir, 'gone')).then(String) }) },
      signal,
    );
    await expect(cut).rejects.toMatchObject({ name: 'CheckpointTorn', dir });
  });

  it('does not sample from files that are not those with which the rollout was started', async () => {
    const refused = generate(turnInput(1, { policy: { uri: 'file:///policy', version: 3, digest: 'of before' } }));
    await expect(refused).rejects.toMatchObject({ name: 'CheckpointTorn', dir: '/policy' });
    expect(world.now.engine.requests).toEqual([]);
  });

  it('at which the engine failed is not recorded', async () => {
    world.now.engine.answers = [() => Promise.reject(new Error('the engine broke')), saying(finishCall)];
    await expect(generate(turnInput(1))).rejects.toThrow('the engine broke');
    expect(await recordOf(1)).toBeUndefined();
    expect(await eventLines(world.now.store)).toEqual([]);
    expect(await generate(turnInput(1))).toMatchObject({ kind: 'finish' });
  });
});

describe('the context', () => {
  it('grows by appended ids alone: what was sampled is never encoded again', async () => {
    world.now.engine.answers = [saying(call('ls')), saying(call('cat a')), saying(finishCall)];
    await generate(turnInput(1));
    await answered(1, 'a b');
    await generate(turnInput(2));
    await answered(2, 'text');
    await generate(turnInput(3));
    const second = [...PROMPT, ...saying(call('ls')).tokens, ...encode('\ntool:a b$\nassistant:')];
    const third = [...second, ...saying(call('cat a')).tokens, ...encode('\ntool:text$\nassistant:')];
    expect(world.now.engine.requests.map(({ tokens }) => tokens)).toEqual([PROMPT, second, third]);
    expect(await eventLines(world.now.store, 'turn')).toEqual(['turn 1', 'turn 2', 'turn 3']);
  });

  it.each([
    ['no call', 'I think so.', noCallHint('function-xml')],
    [
      'a call that is cut',
      '<function=bash>\n<parameter=command>ls',
      malformedCallHint('function-xml', 'The call has no closing </function>.'),
    ],
  ])('after %s continues with a hint', async (_, text, hint) => {
    world.now.engine.answers = [saying(text), saying(finishCall)];
    expect(await generate(turnInput(1))).toMatchObject({ kind: 'reply', calls: 0 });
    await generate(turnInput(2));
    expect(world.now.engine.requests[1]?.tokens).toEqual([
      ...PROMPT,
      ...saying(text).tokens,
      ...encode(`\nuser:${hint}$\nassistant:`),
    ]);
  });

  it('starts anew if the template changes earlier tokens', async () => {
    const tokenizer = characterTokenizer({ stable: false });
    const deps = { ...world.now.deps, ...embeddedOnly({ ...world.now.parts, tokenizerOf: async () => tokenizer }) };
    world.now.engine.answers = [saying(call('ls')), saying(finishCall)];
    await generateTurn(turnInput(1), deps, signal);
    await answered(1, 'a b');
    const outcome = await generateTurn(turnInput(2), deps, signal);
    const afresh = encode('user:Solve toy-train-0.$\nassistant:$\ntool:a b$\nassistant:');
    expect(world.now.engine.requests[1]?.tokens).toEqual(afresh);
    expect(await recordOf(2)).toMatchObject({ appended: afresh, reset: true });
    expect(outcome.contextTokens).toBe(afresh.length + saying(finishCall).tokens.length);
  });
});

describe('an ending', () => {
  it('by finish runs the calls before it, and none after it', async () => {
    world.now.engine.answers = [saying(call('ls') + finishCall + call('rm -r .'))];
    expect(await generate(turnInput(1))).toMatchObject({ kind: 'finish', calls: 1 });
  });

  it('by a full context sends no request to the engine', async () => {
    const first = saying(call('ls'));
    world.now.engine.answers = [first];
    const bounds = { maxContextTokens: PROMPT.length + first.tokens.length };
    await generate(turnInput(1, bounds));
    await answered(1, 'ok');
    expect(await generate(turnInput(2, bounds))).toMatchObject({
      kind: 'context',
      calls: 0,
      sampledTokens: 0,
      line: 'context',
    });
    expect(world.now.engine.requests.length).toBe(1);
    expect(await recordOf(2)).toMatchObject({ sampled: [], end: 'context' });
  });

  it('never comes about by a prompt that fills the context: the task is at fault, by its key and the lengths', async () => {
    const input = turnInput(1, { maxContextTokens: PROMPT.length });
    await expect(generate(input)).rejects.toMatchObject({
      name: 'PromptTooLong',
      message: `the prompt of ${input.task} has ${PROMPT.length} tokens, and the context ${PROMPT.length}: there is no room for an answer`,
    });
    expect(world.now.engine.requests).toEqual([]);
    expect(await recordOf(1)).toBeUndefined();
  });

  it("is the engine's own context, without a setting: `context` later, the task's fault at first", async () => {
    const engine = world.now.engine;
    const refused = () => Promise.reject(new ContextTooLong(9, 8, 'its memory'));
    engine.answers = [{ ...saying(call('ls'), 'length'), finishReason: 'context' }];
    const { maxContextTokens: _, ...free } = turnInput(1);
    expect(await generate(free)).toMatchObject({ kind: 'context', calls: 0 });
    await answered(1, 'ok');
    engine.generate = refused;
    expect(await generate({ ...free, turn: 2 })).toMatchObject({ kind: 'context', sampledTokens: 0 });
    await expect(generate({ ...free, rollout: 'another' })).rejects.toThrow('9 tokens, and the context 8 (its memory)');
  });

  it.each([
    ['the context is full', 5, 'context', 5],
    ['the turn is too long', 500, 'response-cut', 100],
  ])('because %s is distinguished from the other, and a cut call is never run', async (_, room, kind, maxTokens) => {
    world.now.engine.answers = [saying(call('ls'), 'length')];
    const outcome = await generate(turnInput(1, { maxContextTokens: PROMPT.length + room }));
    expect(outcome).toMatchObject({ kind, calls: 0 });
    expect(world.now.engine.requests[0]?.sampling.maxTokens).toBe(maxTokens);
    expect((await recordOf(1))?.parsed.kind).toBe('no-call');
  });

  it('by a stop token that just fits is not a cut', async () => {
    const { tokens } = saying(finishCall);
    world.now.engine.answers = [saying(finishCall)];
    expect(await generate(turnInput(1, { maxContextTokens: PROMPT.length + tokens.length }))).toMatchObject({
      kind: 'finish',
    });
  });
});

describe('a policy that a run trains meanwhile', () => {
  const following = (turn: number) => turnInput(turn, { policy: { uri: 'file:///policy', version: 3, newestOf: 'r' } });
  const updated = (version: number) =>
    world.now.store.putOnce(keys.update('r', version), { policy: { uri: `file:///v${version}`, version } });

  it('is sampled in its newest version at each turn, and the turn records the version', async () => {
    world.now.engine.answers = [saying(call('ls')), saying(finishCall)];
    await generate(following(1));
    await answered(1, 'files');
    await updated(4);
    await updated(5);
    await generate(following(2));
    expect(world.now.engine.requests.map(({ policy }) => policy)).toMatchObject([
      { dir: '/policy', version: 3 },
      { dir: '/v5', version: 5 },
    ]);
    expect([(await recordOf(1))?.version, (await recordOf(2))?.version]).toEqual([3, 5]);
  });

  it('has its recorded turns returned after more updates; turns of an older version are refused', async () => {
    world.now.engine.answers = [saying(finishCall)];
    await updated(4);
    const first = await generate(following(1));
    await updated(5);
    expect(await generate(following(1))).toEqual(first);
    const later = turnInput(1, { policy: { uri: 'file:///v5', version: 5, newestOf: 'r' } });
    await expect(generate(later)).rejects.toThrow(/sampled by version 4/);
  });
});

describe('a turn that a text ended', () => {
  it('keeps the text, and the next prompt starts with the token that it lacks', async () => {
    const { tokens, logprobs } = saying(call('ls'));
    const stopText = '</tool_call>';
    world.now.engine.answers = [
      { tokens: tokens.slice(0, -1), logprobs: logprobs.slice(0, -1), finishReason: 'stop', stopText },
      saying(finishCall),
    ];
    expect(await generate(turnInput(1))).toMatchObject({ kind: 'act', calls: 1 });
    await answered(1, 'a.py');
    await generate(turnInput(2));
    const [first, second] = [await recordOf(1), await recordOf(2)];
    expect(first).toMatchObject({ end: 'stop', stopText, sampled: tokens.slice(0, -1) });
    expect(second?.reset).toBe(false);
    expect(second?.appended[0]).toBe(tokens.at(-1));
    expect(world.now.engine.requests[1]?.tokens).toEqual([...PROMPT, ...tokens, ...(second?.appended.slice(1) ?? [])]);
  });
});
