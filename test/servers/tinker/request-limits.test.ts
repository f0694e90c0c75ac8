/** Hunts small requests that take much memory: lists of wrong elements, compressed bodies, results of any size. */
import { zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { forwardBody, sampleBody } from '../../../endpoints/tinker/wire/bodies.ts';
import { readBody, Turns } from '../../../servers/tinker/request-body.ts';
import { StoreCorrupt } from '../../../store/disk-errors.ts';
import { BASE, Caller, datum, startToy, type Toy } from './toy-server.ts';

let toy: Toy;
let caller: Caller;
beforeAll(async () => {
  toy = await startToy({}, { contextTokens: 2 ** 20 });
  caller = new Caller(toy.server.url);
});
afterAll(() => toy.server.close(0));

it('a list of wrong elements is one error, which names the first', () => {
  const wrong = Array<string>(100_000).fill('x');
  const input = { loss_fn: 'cross_entropy', data: [] as unknown };
  const issuesOf = (data: unknown) =>
    forwardBody.safeParse({ model_id: 'm', forward_input: { ...input, data } }).error?.issues ?? [];
  expect(issuesOf(wrong)).toHaveLength(1);
  expect(issuesOf([...Array(16_385).keys()])[0]?.message).toMatch(/at most 16384/);
  const json = (tokens: unknown, chunks: unknown = [{ tokens }]) => [{ model_input: { chunks }, loss_fn_inputs: {} }];
  expect(issuesOf(json([1, 2]))).toEqual([]);
  expect(issuesOf(json(wrong))).toHaveLength(1);
  expect(issuesOf(json([], wrong.slice(0, 1000)))[0]?.path).toEqual([
    'forward_input',
    'data',
    0,
    'model_input',
    'chunks',
    0,
  ]);
  const prompt = { chunks: [] };
  const stop = sampleBody.safeParse({ prompt, sampling_params: { stop: wrong } }).error?.issues ?? [];
  expect(stop).toHaveLength(1);
});

it('a sample may ask for a number of tokens in all', async () => {
  const session = await caller.session();
  const of = { session_id: session, sampling_session_seq_id: 0, base_model: BASE.name };
  const id = (await caller.post('/create_sampling_session', of)).body.sampling_session_id;
  const ask = (seq: number, max_tokens: number, num_samples: number, topk_sample_logprobs: number) =>
    caller.submitSample(id, seq, [5], { max_tokens }, { num_samples, topk_sample_logprobs });
  const much = await ask(0, 2 ** 15, 1024, 0);
  expect([much.status, much.body.detail]).toEqual([400, expect.stringMatching(/num_samples × max_tokens.*33554432/)]);
  expect((await ask(0, 2 ** 14, 32, 64)).status).toBe(400);
  expect((await ask(0, 1, 1024, 64)).status).toBe(200);
});

it('a pass has a number of tokens in all', async () => {
  const { model } = await caller.model();
  const tokens = Array<number>(2 ** 16).fill(5);
  const long = datum(tokens, tokens);
  const { status, body } = await caller.submitPass(model, 1, Array(9).fill(long));
  expect([status, body.detail]).toEqual([400, expect.stringMatching(/589824 tokens are too many for one pass/)]);
});

it('a model of a finished session can be unloaded, and takes nothing else', async () => {
  const { model, session } = await caller.model();
  await caller.post(`/sessions/${session}/finish`, { reason: { type: 'success' } });
  expect((await caller.submitPass(model, 1, [datum([5], [6])])).status).toBe(400);
  expect((await caller.post('/unload_model', { model_id: model })).status).toBe(200);
});

it('a damaged result is a failed one, and not a status that the SDK repeats for ever', async () => {
  const { model } = await caller.model();
  const { body } = await caller.optim(model, 1);
  const { waitFor } = toy.journal;
  toy.journal.waitFor = async () => {
    throw new StoreCorrupt('/journal', 'the result is not what was written', { key: 'result' });
  };
  const answer = await caller.post('/retrieve_future', { request_id: body.request_id });
  toy.journal.waitFor = waitFor;
  expect(answer).toMatchObject({
    status: 200,
    body: { error: expect.stringContaining('damaged'), category: 'server' },
  });
});

it('metadata and details have a size', async () => {
  const big = await caller.post('/create_session', { tags: [], user_metadata: { a: 'x'.repeat(70_000) } });
  expect([big.status, big.body.detail]).toEqual([
    422,
    expect.stringMatching(/user_metadata: give at most 65536 bytes/),
  ]);
  const session = await caller.session();
  const reason = { type: 'success' };
  const finish = await caller.post(`/sessions/${session}/finish`, { reason, detail: 'x'.repeat(5000) });
  expect([finish.status, finish.body.detail]).toEqual([422, expect.stringMatching(/^detail: /)]);
});

it('a repetition is the same future, also when the key has much waiting and the session is finished', async () => {
  const full = await startToy({ quotas: { waiting: 1 } });
  try {
    const own = new Caller(full.server.url);
    const { model, session } = await own.model();
    full.journal.busyLanes = async () => [];
    full.journal.waiting = async () => [];
    const first = await own.optim(model, 1);
    expect((await own.optim(model, 2)).status).toBe(429);
    expect(await own.optim(model, 1)).toEqual(first);
    await own.post(`/sessions/${session}/finish`, { reason: { type: 'success' } });
    expect(await own.optim(model, 1)).toEqual(first);
  } finally {
    await full.server.close(0);
  }
});

it('few bodies are decompressed at once, and each is used', async () => {
  const turns = new Turns(2);
  let [running, most] = [0, 0];
  const counted = new Proxy(turns, {
    get: (own, name) =>
      name === 'run'
        ? (work: () => Promise<number>) =>
            own.run(async () => {
              most = Math.max(most, (running += 1));
              return work().finally(() => (running -= 1));
            })
        : Reflect.get(own, name, own),
  });
  const body = zstdCompressSync(Buffer.alloc(100_000));
  const use = (bytes: Buffer) => bytes.length;
  const sizes = await Promise.all(Array.from({ length: 9 }, () => readBody(body, 'zstd', use, { turns: counted })));
  expect(sizes).toEqual(Array(9).fill(100_000));
  expect(most).toBe(2);
  await expect(readBody(Buffer.from('no'), 'zstd', use, { turns })).rejects.toThrow('is not zstd');
  expect(await readBody(body, 'zstd', use, { turns })).toBe(100_000);
});
