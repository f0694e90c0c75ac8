/**
 * Hunts turns of an endpoint that differ from the engine's, transcripts that lose or invent something, and records that
 * claim to be training data and are not. Over real HTTP; the server's protocol is a loopback stand-in.
 */
import { TaskLoader } from '../../tasks/task-loader.ts';
import { describe, expect, it } from 'vitest';
import { generateTurn } from '../../activities/generate/generate.ts';
import type { ActRecord, GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { trainingDataOf } from '../../activities/update/training-data.ts';
import { trajectoryOf } from '../../reports/trajectories.ts';
import { malformedCallHint, noCallHint } from '../../agents/hints.ts';
import { trajectoryText } from '../../cli/train/format.ts';
import { type Answer, type Handler } from '../support/endpoint/http-server.ts';
import { call, finishCall } from './scripted-parts.ts';
import { algorithm, attemptOf, ended, putManifest, turnInput } from './world.ts';
import { useEndpoint } from './endpoint-turns.ts';

const { signal, world, said, serving, engineServer, ids, recordOf, answered, probed } = useEndpoint();

describe('an endpoint that takes ids', () => {
  it.each(['vllm', 'sglang', 'llama.cpp'] as const)(
    'records what the engine itself would have recorded, by the protocol of %s',
    async (protocol) => {
      const { deps, engine } = world.now;
      engine.answers = [...said];
      const direct = { ...attemptOf(0, 1), policy: { uri: 'file:///served', version: 3 } };
      const { handler, engine: served } = engineServer({ owner: protocol === 'llama.cpp' ? 'llamacpp' : protocol });
      probed(served);
      const { generate } = await serving(handler, { ...ids, protocol });
      for (const turn of [1, 2, 3]) {
        const there = await generate(turn);
        expect(there).toEqual(await generateTurn(turnInput(turn, direct), deps, signal));
        const [mine, theirs] = [
          await recordOf(turn),
          await world.now.store.get<GenerateRecord>(keys.generate(turnInput(turn, direct), turn)),
        ];
        const { endpoint, ...rest } = mine!;
        expect(rest).toEqual({ ...theirs, digest: undefined });
        expect(endpoint).toMatchObject({ model: 'm', offer: { mode: 'tokens', protocol } });
        await answered(turn, 'a b');
        await world.now.store.putOnce<ActRecord>(keys.act(turnInput(turn, direct), turn), {
          messages: [{ role: 'tool', name: 'bash', content: 'a b' }],
        });
      }
      expect(served.requests.slice(1).map(({ tokens }) => tokens)).toEqual(engine.requests.map(({ tokens }) => tokens));
    },
  );

  it.each([{ minP: 0.1 }, { repetitionPenalty: 1.2 }, { stop: ['x'] }])(
    'is not used with %o, which it would not receive',
    async (option) => {
      const { handler, engine } = engineServer();
      const { generate } = await serving(handler, ids);
      const sampling = { ...turnInput(1).sampling, ...option };
      const [field = ''] = Object.keys(option);
      await expect(generate(1, { sampling })).rejects.toMatchObject({
        name: 'UserInputError',
        field: `sampling.${field}`,
      });
      expect(engine.requests).toEqual([]);
    },
  );

  it('is detected once in a run, however many rollouts there are', async () => {
    const { handler, engine } = engineServer();
    probed(engine);
    const { server, generate } = await serving(handler, { mode: 'auto', tokenizer: '/t' });
    await generate(1);
    await generate(1, attemptOf(0, 1));
    expect(server.asked.map(({ path }) => path)).toEqual([
      '/v1/models',
      '/v1/completions',
      '/v1/completions',
      '/v1/completions',
    ]);
  });

  it('that tokenises the prompt again is refused, with what to do', async () => {
    const { handler } = engineServer({ retokenise: (prompt) => [1, ...prompt] });
    const { generate } = await serving(handler, ids);
    await expect(generate(1)).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'policy.endpoint.mode',
      remedy: expect.stringContaining('chat') as string,
    });
    expect(await recordOf(1)).toBeUndefined();
  });

  it('whose context the prompt alone fills fails the rollout by its task', async () => {
    const { handler, engine } = engineServer({ contextTokens: 20, owner: 'sglang' });
    probed(engine);
    const { generate } = await serving(handler, { ...ids, protocol: 'sglang' });
    await expect(generate(1)).rejects.toMatchObject({ name: 'PromptTooLong', task: turnInput(1).task });
  });

  it('without log-probabilities can be rolled out, and the record says that it cannot be trained on', async () => {
    const { handler, engine } = engineServer();
    probed(engine);
    const { generate } = await serving(async (asked, gone) => {
      const answer = (await handler(asked, gone)) as { body: { choices?: Array<{ logprobs?: unknown }> } };
      for (const choice of answer.body.choices ?? []) delete choice.logprobs;
      return answer as Answer;
    }, ids);
    expect(await generate(1)).toMatchObject({ kind: 'act' });
    expect(await recordOf(1)).toMatchObject({ logprobs: [], untrainable: 'the server gave no log-probabilities' });
    await generate(1, attemptOf(0, 1));
    await ended(world.now.store, 0, 0, 1);
    await ended(world.now.store, 0, 1, 0);
    const batches = [await putManifest(world.now.store, [attemptOf().task])];
    const { fates, data } = await trainingDataOf({ batches, samples: 2, algorithm }, world.now.store);
    expect([...fates.values()]).toEqual([
      { event: 'masked', reason: 'no-logprobs' },
      { event: 'masked', reason: 'no-logprobs' },
    ]);
    expect(data).toEqual([]);
  });

  it('with log-probabilities of another temperature is recorded as not trainable', async () => {
    const { handler, engine } = engineServer();
    probed(engine);
    const { generate } = await serving(handler, ids);
    await generate(1, { sampling: { temperature: 0.7, topP: 1, topK: 0, maxTokens: 100 } });
    expect((await recordOf(1))?.untrainable).toContain('temperature 1');
  });

  it('with log-probabilities of the sampling temperature is trained on at that one', async () => {
    const { handler, engine } = engineServer({ owner: 'sglang' });
    probed(engine);
    const { generate } = await serving(handler, { ...ids, protocol: 'sglang' });
    const sampling = { temperature: 0.7, topP: 1, topK: 0, maxTokens: 100 };
    for (const k of [0, 1]) {
      await generate(1, { ...attemptOf(0, k), sampling });
      await ended(world.now.store, 0, k, k);
    }
    const batches = [await putManifest(world.now.store, [attemptOf().task])];
    const { data } = await trainingDataOf({ batches, samples: 2, algorithm }, world.now.store);
    expect(data.map(({ mask, temperatures }) => mask.map((counts, i) => (counts ? temperatures?.[i] : 0.7)))).toEqual(
      data.map(({ mask }) => mask.map(() => 0.7)),
    );
    expect(data).toHaveLength(2);
  });
});

describe('an endpoint that takes chat', () => {
  const chat = { mode: 'chat' };
  const message = (content: string, tool_calls?: unknown, finish_reason = 'stop', extra = {}): Answer => ({
    body: {
      choices: [
        { finish_reason, message: { role: 'assistant', content, ...(tool_calls ? { tool_calls } : {}), ...extra } },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 4 },
    },
  });
  const bash = (id: string, given: string) => ({ id, type: 'function', function: { name: 'bash', arguments: given } });
  const scripted = (...answers: Answer[]): Handler => {
    let next = 0;
    return () => answers[next++] ?? null;
  };

  it.each([
    ['is malformed', { body: { choices: [] } }, /http:.*chat completion .*choices/],
    ['was cut by a failure', message('Look', undefined, 'error'), /http:.*finish_reason "error"/],
  ])('whose answer %s is unavailable, and neither graded nor the fault of a setting', async (_, answer, said) => {
    const { generate } = await serving(scripted(answer), { ...chat, maxTries: 1 });
    await expect(generate(1)).rejects.toMatchObject({
      name: 'EndpointUnavailable',
      message: expect.stringMatching(said) as string,
    });
    expect(await recordOf(1)).toBeUndefined();
  });

  it('receives every call and every answer in its own form, and the tools', async () => {
    const { server, generate } = await serving(
      scripted(
        message('Looking.', [bash('a', '{"command": "ls"}'), bash('b', '{"command":"pwd"}')], 'tool_calls'),
        message('', [bash('c', '{}')], 'tool_calls'),
      ),
      chat,
    );
    expect(await generate(1)).toEqual({
      kind: 'act',
      calls: 2,
      contextTokens: 14,
      sampledTokens: 4,
      line: 'bash ls; bash pwd',
    });
    await answered(1, 'x', '/work');
    await generate(2);
    expect(server.asked[0]?.body).toMatchObject({
      model: 'm',
      temperature: 1,
      max_tokens: 100,
      tools: ['bash', 'search', 'finish'].map((name) => ({ type: 'function', function: { name } })),
    });
    expect(server.asked[1]?.body['messages']).toEqual([
      { role: 'user', content: 'Solve toy-train-0.' },
      {
        role: 'assistant',
        content: 'Looking.',
        tool_calls: [bash('a', '{"command": "ls"}'), bash('b', '{"command":"pwd"}')],
      },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
      { role: 'tool', tool_call_id: 'b', content: '/work' },
    ]);
    expect(await recordOf(1)).toMatchObject({
      sampled: [],
      logprobs: [],
      chat: { usage: { promptTokens: 10, completionTokens: 4 } },
    });
  });

  it.each([
    [
      'arguments that are no JSON',
      message('Hm.', [bash('a', '{"command": ls}')]),
      'Hm.\nbash {"command": ls}',
      /^The tool call could not be read. In the call of bash, its arguments are not JSON/,
    ],
    [
      'arguments that are a list',
      message('', [bash('a', '["ls"]')]),
      'bash ["ls"]',
      new RegExp(`^${malformedCallHint('server', 'In the call of bash, its arguments are not an object.')}$`),
    ],
    ['no call', message('I think so.'), 'I think so.', new RegExp(`^${noCallHint('server')}$`)],
  ])('after %s continues with a hint, and with the sampled text', async (_, first, text, hint) => {
    const { server, generate } = await serving(scripted(first, message('', [bash('a', '{}')])), chat);
    expect(await generate(1)).toMatchObject({ kind: 'reply', calls: 0 });
    await generate(2);
    const [, own, told] = server.asked[1]!.body['messages'] as Array<{ role: string; content: string }>;
    expect(own).toEqual({ role: 'assistant', content: text });
    expect(told).toMatchObject({ role: 'user', content: expect.stringMatching(hint) as string });
  });

  it('gets calls and answers as text in the form of a codec, and its text is parsed here', async () => {
    const conversation = { codec: 'function-xml', reasoning: 'remove' } as const;
    const first = message(`<think>or ${call('rm')}</think>I look.\n${call('ls')}`);
    const { server, generate } = await serving(scripted(first, message(finishCall)), chat);
    expect(await generate(1, { conversation })).toMatchObject({ kind: 'act', calls: 1, line: 'bash ls' });
    await answered(1, 'x', 'y');
    expect(await generate(2, { conversation })).toMatchObject({ kind: 'finish' });
    const [one, two] = server.asked.map(({ body }) => body);
    expect(one).not.toHaveProperty('tools');
    const system = { role: 'system', content: expect.stringContaining('"name":"bash"') as string };
    const answers = 'EXECUTION RESULT of [bash]:\nx\nEXECUTION RESULT of [bash]:\ny';
    expect(two?.['messages']).toEqual([
      system,
      { role: 'user', content: 'Solve toy-train-0.' },
      { role: 'assistant', content: `I look.\n${call('ls')}` },
      { role: 'user', content: answers },
    ]);
  });

  it('gets its reasoning back if that is kept', async () => {
    const thought = message('', [bash('a', '{"command": "ls"}')], 'stop', { reasoning_content: 'Why?' });
    const { server, generate } = await serving(scripted(thought, message('', [bash('b', '{}')])), chat);
    await generate(1, { conversation: { reasoning: 'keep' } });
    await answered(1, 'x');
    await generate(2, { conversation: { reasoning: 'keep' } });
    const [, own] = server.asked[1]!.body['messages'] as readonly unknown[];
    expect(own).toMatchObject({ role: 'assistant', reasoning_content: 'Why?' });
  });

  it.each([
    ['a filter took the answer away', message('', undefined, 'content_filter'), 'refused'],
    ['the policy refuses', message('', undefined, 'stop', { refusal: 'I will not.' }), 'refused'],
    ['the answer is cut', message('', [bash('a', '{"comm')], 'length'), 'response-cut'],
  ])('ends the loop if %s', async (_, answer, kind) => {
    const { generate } = await serving(scripted(answer), chat);
    expect(await generate(1)).toMatchObject({ kind, calls: 0 });
  });

  it('ends the loop if its context is full, and fails the rollout if the prompt alone fills it', async () => {
    const error = { message: "This model's maximum context length is 8 tokens.", code: 'context_length_exceeded' };
    const full = { status: 400, body: { error } };
    const { generate } = await serving(scripted(message('', [bash('a', '{"command":"ls"}')]), full), chat);
    await generate(1);
    await answered(1, 'ok');
    expect(await generate(2)).toMatchObject({ kind: 'context', calls: 0 });
    const atOnce = await serving(scripted(full), chat);
    await expect(atOnce.generate(1, { rollout: 'another' })).rejects.toMatchObject({
      name: 'PromptTooLong',
      message: expect.stringContaining('toy-train-0 is longer than the context, and the context 8') as string,
    });
  });

  it('is not asked once the counted context is full', async () => {
    const { server, generate } = await serving(scripted(message('Hm.')), chat);
    await generate(1, { maxContextTokens: 14 });
    expect(await generate(2, { maxContextTokens: 14 })).toMatchObject({ kind: 'context', contextTokens: 14 });
    expect(server.asked.length).toBe(1);
  });

  it('leaves a record with the reason why it cannot be trained on, and so does the trajectory', async () => {
    const { generate } = await serving(
      scripted(message('Done.', [{ id: 'a', type: 'function', function: { name: 'finish', arguments: '' } }])),
      chat,
    );
    expect(await generate(1)).toMatchObject({ kind: 'finish', calls: 0 });
    const rollout = await ended(world.now.store, 0, 0, 1);
    const trajectory = await trajectoryOf(rollout, { store: world.now.store, tasks: new TaskLoader(world.now.store) });
    expect(trajectory).toMatchObject({
      sampledTokens: 4,
      contextTokens: 14,
      messages: [{ role: 'user' }, { role: 'assistant', content: 'Done.', toolCalls: [{ name: 'finish' }] }],
    });
    expect(trajectoryText(trajectory!)).toContain('cannot be trained on: the endpoint was asked in chat');
  });

  it('goes through a whole rollout of a served policy', async () => {
    const { handler } = engineServer({ owner: 'somebody' });
    const { generate } = await serving(handler, { mode: 'auto' });
    expect(await generate(1)).toMatchObject({ kind: 'act', calls: 1 });
    await answered(1, 'a b');
    expect(await generate(2)).toMatchObject({ kind: 'reply' });
    expect(await generate(3)).toMatchObject({ kind: 'finish' });
    expect(await recordOf(3)).toMatchObject({
      endpoint: { offer: { mode: 'chat', reason: 'the endpoint sets no tokenizer, so prompts cannot be sent as ids' } },
    });
  });

  it('refuses a setting that the API does not have', async () => {
    const { generate, server } = await serving(scripted(), chat);
    const sampling = { temperature: 1, topP: 1, topK: 5, maxTokens: 10 };
    await expect(generate(1, { sampling })).rejects.toMatchObject({
      name: 'UserInputError',
      field: 'sampling.topK',
      value: 5,
    });
    expect(server.asked).toEqual([]);
  });
});
