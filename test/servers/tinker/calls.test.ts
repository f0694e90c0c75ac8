/**
 * Hunts calls that the SDK makes rarely: many results at once, cancellations, scores of a prompt's end, several targets
 * per position, keys with names, and bodies that come slowly.
 */
import { request } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { readKeys } from '../../../servers/tinker/tenants.ts';
import type { TinkerServerOptions } from '../../../servers/tinker/tinker-server.ts';
import { BASE, Caller, datum, startToy, type Toy } from './toy-server.ts';

const open: Toy[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map(({ server }) => server.close(0)));
});
async function start(options: Partial<TinkerServerOptions> = {}) {
  const toy = await startToy(options);
  open.push(toy);
  return { toy, caller: new Caller(toy.server.url) };
}
async function newSampler(caller: Caller): Promise<string> {
  const of = { session_id: await caller.session(), sampling_session_seq_id: 0, base_model: BASE.name };
  return (await caller.post('/create_sampling_session', of)).body.sampling_session_id;
}

it('results of a sampler come in the order in which they were made, each once per cursor', async () => {
  const { toy, caller } = await start();
  const sampler = await newSampler(caller);
  const ask = async (seq: number) => (await caller.submitSample(sampler, seq, [5])).body.request_id;
  const many = async (prev_cursor: number, timeout = 0) => {
    const target = { type: 'sampling_session', sampling_session_id: sampler };
    const { body } = await caller.post('/retrieve_futures', { target, prev_cursor, timeout });
    return body as unknown as { completions: Array<{ state: string; request_id: string }>; cursor: number };
  };
  const first = [await ask(0), await ask(1)];
  for (const id of first) await caller.result(id);
  const all = await many(0);
  expect(all.completions.toSorted((a, b) => first.indexOf(a.request_id) - first.indexOf(b.request_id))).toEqual(
    first.map((request_id) => ({ state: 'finished', request_id })),
  );
  expect(await many(all.cursor)).toEqual({ completions: [], cursor: all.cursor });
  // It waits for the next one.
  const waits = many(all.cursor, 30);
  const third = await ask(2);
  expect((await waits).completions).toEqual([{ state: 'finished', request_id: third }]);
  toy.engine.running = false;
  const fourth = await ask(3);
  await caller.post('/cancel_future', { request_id: fourth });
  const next = (await many(all.cursor)).completions.at(-1);
  expect(next).toEqual({ state: 'failed', request_id: fourth });
});

it('a sample that waits can be cancelled; a finished one keeps its result, and others are refused', async () => {
  const { toy, caller } = await start();
  const sampler = await newSampler(caller);
  const { model } = await caller.model();
  const done = (await caller.submitSample(sampler, 0, [5])).body.request_id;
  const before = await caller.bytes(done);
  toy.engine.running = false;
  const waiting = (await caller.submitSample(sampler, 1, [5])).body.request_id;
  const step = (await caller.optim(model, 1)).body.request_id;
  const cancel = (request_id: string, by = caller) => by.post('/cancel_future', { request_id });
  expect((await cancel(waiting, new Caller(toy.server.url, 'tml-another'))).status).toBe(404);
  expect((await cancel(done)).status).toBe(200);
  expect(await caller.bytes(done)).toEqual(before);
  expect((await cancel(waiting)).status).toBe(200);
  expect(await caller.result(waiting)).toEqual({ error: 'the request was cancelled', category: 'user' });
  expect(await cancel(step)).toMatchObject({ status: 400, body: { detail: expect.stringMatching(/is no sample/) } });
});

it("scores of a prompt's end come with those of the whole prompt, if there are as many", async () => {
  const { caller } = await start();
  const sampler = await newSampler(caller);
  const prompt = [5, 6, 7, 8];
  const ask = (seq: number, rest: object) => caller.submitSample(sampler, seq, prompt, {}, rest);
  const got = await caller.sample(sampler, 0, prompt, {}, { prompt_logprobs: true, prompt_logprobs_last_n: 2 });
  const whole = await caller.sample(sampler, 1, prompt, {}, { prompt_logprobs: true });
  expect(got.promptLogprobs).toEqual(whole.promptLogprobs);
  expect((await ask(2, { prompt_logprobs_last_n: 2 })).body.detail).toMatch(/give prompt_logprobs with it/);
  for (const wrong of [0, 4, 1.5])
    expect((await ask(3, { prompt_logprobs: true, prompt_logprobs_last_n: wrong })).status).toBe(400);
});

it('several targets per position are refused by the name of their input', async () => {
  const { caller } = await start();
  const { model } = await caller.model();
  const one = datum([5, 6], [6, 7]);
  const targets = { dtype: 'int64' as const, shape: [2, 2], values: Float64Array.of(6, 7, 8, 9) };
  const { status, body } = await caller.submitPass(model, 1, [{ ...one, inputs: { target_tokens: targets } }]);
  expect([status, body.detail]).toEqual([400, expect.stringMatching(/target_tokens: its shape is \[2, 2\]/)]);
});

it('keys of one name share what they have, others see nothing of it, and unknown ones are refused', async () => {
  const { toy } = await start({ keys: readKeys('ann=tml-one,ann=tml-two tml-three', '--api-key-env') });
  const [one, two, three, unknown] = ['tml-one', 'tml-two', 'tml-three', 'tml-four'].map(
    (key) => new Caller(toy.server.url, key),
  );
  const { model } = await one!.model();
  const info = (caller: Caller) => caller.post('/get_info', { model_id: model });
  expect([await info(two!), await info(three!), await info(unknown!)].map(({ status }) => status)).toEqual([
    200, 404, 401,
  ]);
});

it('a body that comes too slowly is refused, and keeps out nobody', async () => {
  const { toy, caller } = await start({ limits: { bodySeconds: 0.3 } });
  const headers = { 'x-api-key': 'tml-slow', 'content-type': 'application/json', 'content-length': 1000 };
  const slow = request(`${toy.server.url}/api/v1/create_session`, { method: 'POST', headers });
  const status = new Promise<number | undefined>((resolve, reject) => {
    slow.on('response', (response) => resolve(response.statusCode)).on('error', reject);
  });
  slow.write('{"tags": [');
  expect(await caller.session()).toMatch(/-/);
  expect(await status).toBe(408);
  slow.destroy();
});
