/**
 * Hunts accepted requests whose repetition is refused or begins anew: after quotas are full, the session is finished, and
 * what they read is deleted. And bounds of a key that one kind of request uses up for the other.
 */
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, expect, it } from 'vitest';
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
const stop = ({ engine, journal }: Toy) => {
  engine.running = false;
  journal.busyLanes = async () => [];
};
const finish = (caller: Caller, session: string) =>
  caller.post(`/sessions/${session}/finish`, { reason: { type: 'success' } });

it('a repeated request is recognised before anything else is checked', async () => {
  const { toy, caller } = await start({ quotas: { waiting: 3, models: 2, checkpointBytes: 1500 } });
  const { model, session } = await caller.model();
  const saved = (await caller.done(caller.post('/save_weights', { model_id: model, path: 'a', seq_id: 1 }))).path;
  const named = { model_id: model, path: 'b', seq_id: 2 };
  const sampled = (await caller.done(caller.post('/save_weights_for_sampler', named))).path;
  stop(toy);
  const load = { session_id: session, model_seq_id: 1, path: saved, optimizer: true };
  const sampler = { session_id: session, sampling_session_seq_id: 0, model_path: sampled };
  const made = await caller.post('/create_sampling_session', sampler);
  const id = made.body.sampling_session_id;
  const within = { model_id: model, seq_id: 3, path: saved, optimizer: false };
  const create = () => caller.createModel(session);
  const all = [
    () => caller.post('/load_weights', load),
    () => caller.post('/create_sampling_session', sampler),
    () => caller.submitSample(id, 0, [5], {}, { num_samples: 2 }),
    () => caller.post('/load_weights', within),
    create,
  ];
  const first = [];
  for (const send of all) first.push(await send());
  expect(first.map(({ status }) => status)).toEqual(all.map(() => 200));
  // Now nothing new is accepted: the key is full, its weights are gone, its session is finished.
  await caller.optim(model, 4);
  expect((await caller.optim(model, 5)).status).toBe(429);
  for (const path of [saved, sampled]) await toy.journal.deleteCheckpoint(path);
  await finish(caller, session);
  expect((await caller.post('/load_weights', { ...load, model_seq_id: 2 })).status).toBe(404);
  for (const [i, send] of all.entries()) expect(await send()).toEqual(first[i]);
  // Of another key it is no repetition.
  const stranger = new Caller(toy.server.url, 'tml-another');
  expect((await stranger.createModel(session)).status).toBe(404);
});

it('a repeated sample by model_path is the same future, also when its weights are gone', async () => {
  const { toy, caller } = await start();
  const { model } = await caller.model();
  const named = { model_id: model, path: 'a', seq_id: 1 };
  const saved = (await caller.done(caller.post('/save_weights_for_sampler', named))).path;
  const prompt = { chunks: [{ type: 'encoded_text', tokens: [5] }] };
  const asked = { model_path: saved, seq_id: 7, prompt, num_samples: 2, sampling_params: { max_tokens: 4 } };
  const first = await caller.post('/asample', asked);
  expect(first).toMatchObject({ status: 200, body: { request_id: expect.any(String) } });
  await toy.journal.deleteCheckpoint(saved);
  expect(await caller.post('/asample', asked)).toEqual(first);
  // Another body under this number is refused, another number is new, and a stranger sees neither.
  expect((await caller.post('/asample', { ...asked, num_samples: 3 })).status).toBeGreaterThanOrEqual(400);
  expect((await caller.post('/asample', { ...asked, seq_id: 8 })).status).toBe(404);
  expect((await new Caller(toy.server.url, 'tml-another').post('/asample', asked)).status).toBe(404);
});

it('a repeated copy is the same copy, also when its source is gone and the key is full', async () => {
  const { toy, caller } = await start({ quotas: { checkpointBytes: 1500 } });
  const { model, session } = await caller.model();
  const source = (await caller.done(caller.post('/save_weights', { model_id: model, path: 'a', seq_id: 1 }))).path;
  const copy = { source_path: source, session_id: session, model_seq_id: 7 };
  const first = await caller.post('/copy_weights', copy);
  expect(first).toMatchObject({ status: 200, body: { tinker_path: `tinker://${session}:train:7/weights/a` } });
  expect((await caller.post('/copy_weights', { ...copy, model_seq_id: 8 })).status).toBe(400);
  await toy.journal.deleteCheckpoint(source);
  await finish(caller, session);
  expect(await caller.post('/copy_weights', copy)).toEqual(first);
});

it('samples that wait keep out no pass, and passes no sample', async () => {
  const { toy, caller } = await start({ quotas: { waiting: 2 } });
  const { model, session } = await caller.model();
  const of = { session_id: session, sampling_session_seq_id: 0, base_model: BASE.name };
  const id = (await caller.post('/create_sampling_session', of)).body.sampling_session_id;
  stop(toy);
  const ask = async (seq: number) => (await caller.submitSample(id, seq, [5])).status;
  expect([await ask(0), await ask(1), await ask(2)]).toEqual([200, 200, 429]);
  const pass = async (seq: number) => (await caller.submitPass(model, seq, [datum([5], [6])])).status;
  expect([await pass(1), await pass(2), await pass(3)]).toEqual([200, 200, 429]);
  const told = (await caller.submitSample(id, 3, [5])).body.detail;
  expect(told).toMatch(/2 samples waiting: retry later/);
});

it('a key has a number of sessions; those that are finished leave room', async () => {
  const { caller } = await start({ quotas: { sessions: 2 } });
  const [session] = [await caller.session(), await caller.session()];
  const third = await caller.post('/create_session', { tags: [] });
  expect([third.status, third.body.detail]).toEqual([400, expect.stringMatching(/2 sessions, as many as it may have/)]);
  await finish(caller, session);
  expect((await caller.post('/create_session', { tags: [] })).status).toBe(200);
});

it('what a body is decompressed to counts in the budget of bodies, and a bomb is refused', async () => {
  const { caller } = await start({ limits: { bodyBudgetBytes: 2 ** 19 } });
  const body = (bytes: number) => Buffer.from(JSON.stringify({ tags: [], sdk_version: ' '.repeat(bytes) }));
  const bomb = Buffer.alloc(65 * 2 ** 20, ' ');
  for (const [encoding, compress] of [
    ['zstd', zstdCompressSync],
    ['gzip', gzipSync],
  ] as const) {
    const send = (plain: Buffer) =>
      caller.post('/create_session', compress(plain), {
        'content-encoding': encoding,
        'content-type': 'application/json',
      });
    expect((await send(body(2 ** 18))).status).toBe(200);
    expect(await send(body(2 ** 19))).toMatchObject({
      status: 429,
      body: { detail: expect.stringMatching(/too many bytes/) },
    });
    // Nothing is held any more.
    expect((await send(body(2 ** 18))).status).toBe(200);
    expect((await send(bomb)).status).toBe(413);
    expect((await send(body(2 ** 18))).status).toBe(200);
  }
});
