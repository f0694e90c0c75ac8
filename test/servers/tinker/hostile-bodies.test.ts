/** Hunts bodies that stop the server, make it fail or are read as something else than was sent. */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodePassAnswer } from '../../../endpoints/tinker/wire/pass-answer.ts';
import { readJson } from '../../../servers/tinker/parse-json.ts';
import { BASE, Caller, startToy, type Toy } from './toy-server.ts';

let toy: Toy;
let caller: Caller;
beforeAll(async () => {
  toy = await startToy();
  caller = new Caller(toy.server.url);
});
afterAll(() => toy.server.close(0));

const MIB = 2 ** 20;
const json = { 'content-type': 'application/json' };
const gzip = { ...json, 'content-encoding': 'gzip' };
const sent = async (path: string, body: string | Buffer, headers: Record<string, string> = json) => {
  const { status, body: answer } = await caller.post(path, body, headers);
  return [status, answer.detail];
};

describe('size and shape', () => {
  it('a request without tokens has a small body, as it is sent and decompressed', async () => {
    const body = Buffer.alloc(2 * MIB, ' ');
    expect(await sent('/session_heartbeat', body)).toEqual([413, expect.stringContaining('1048576 bytes')]);
    const packed = gzipSync(body);
    for (const path of [
      '/session_heartbeat',
      '/create_session',
      '/sessions/x/finish',
      '/optim_step',
      '/retrieve_future',
    ])
      expect(await sent(path, packed, gzip)).toEqual([413, expect.stringContaining('1048576 bytes, decompressed')]);
    expect((await sent('/retrieve_futures', packed, gzip))[0]).toBe(400);
    expect((await sent('/asample', packed, gzip))[0]).toBe(400);
    expect((await sent('/forward', packed, gzip))[0]).toBe(400);
    expect((await sent('/forward_backward', packed, gzip))[0]).toBe(400);
  });

  it.each([
    ['lists', '['.repeat(201), [400, expect.stringMatching(/nested more than 200 deep/)]],
    ['objects', '{"a":'.repeat(201), [400, expect.stringMatching(/nested more than 200 deep/)]],
    ['as deep as may be', `${'['.repeat(200)}${']'.repeat(200)}`, [422, expect.anything()]],
    ['brackets in a text', JSON.stringify({ a: '["[\\'.repeat(300) }), [422, expect.anything()]],
    ['small objects', `[${'{"a":{}},'.repeat(2 ** 18)}1]`, [413, expect.stringMatching(/524288 objects and lists/)]],
    ['values', `[${'1,'.repeat(2 ** 22 + 1)}1]`, [413, expect.stringMatching(/4194304 values/)]],
    ['texts', `[${'"",'.repeat(2 ** 20 + 1)}1]`, [413, expect.stringMatching(/1048576 strings/)]],
    ['members', `{${'"":1,'.repeat(2 ** 14 + 1)}"":1}`, [413, expect.stringMatching(/16384 members in one object/)]],
  ])('%s', async (_, body, refused) => {
    expect(await sent('/forward_backward', body)).toEqual(refused);
  });

  it('metadata that is nested is refused before anything walks over it', async () => {
    const nested = (deep: number) => `{"tags":[],"user_metadata":{"a":${'['.repeat(deep)}${']'.repeat(deep)}}}`;
    expect((await sent('/create_session', nested(5000)))[0]).toBe(400);
    expect((await sent('/create_session', nested(150)))[0]).toBe(200);
  });

  it('a name of every object is no encoding', async () => {
    for (const name of ['constructor', '__proto__', 'toString'])
      expect(await sent('/session_heartbeat', '{}', { ...json, 'content-encoding': name })).toEqual([
        415,
        expect.stringContaining('zstd, gzip'),
      ]);
  });

  it('a cursor without a time', async () => {
    const cursor = { last_created_at: 'garbage', last_session_id: 'x' };
    expect(await sent('/sessions/search', JSON.stringify({ cursor }))).toEqual([
      422,
      expect.stringMatching(/^cursor.last_created_at: give a time/),
    ]);
  });
});

describe('values', () => {
  it("the body's own number is text where a double cannot hold it; nothing else is", () => {
    const read = (text: string) => readJson(Buffer.from(text));
    const long = '1234567890123456789';
    expect(read(`{"é":"\\"", "seq_id" : ${long} ,"a":{"seq_id":${long}}}`)).toEqual({
      é: '"',
      seq_id: long,
      a: { seq_id: Number(long) },
    });
    expect(read(`{"a":"\\"seq_id\\":${long}","seq_id":7}`)).toEqual({ a: `"seq_id":${long}`, seq_id: 7 });
    expect(read(`{"seq_id":${long}.5}`)).toEqual({ seq_id: Number(long) });
    expect(read(`[{"seq_id":${long}}]`)).toEqual([{ seq_id: Number(long) }]);
    expect(read('')).toEqual({});
    expect(() => read('{"seq_id":"')).toThrow('is not JSON');
  });

  it('metadata is what was sent', async () => {
    const metadata = '{"__proto__":"x","seq_id":1234567890123456789,"b":[1]}';
    const made = await caller.post('/create_session', `{"tags":[],"user_metadata":${metadata}}`, json);
    const shown = await caller.send('GET', `/sessions/${made.body.session_id}`);
    expect(shown.body).toHaveProperty('user_metadata.seq_id', '1234567890123456800');
    expect(Object.entries(Reflect.get(shown.body, 'user_metadata') as object)).toContainEqual(['__proto__', 'x']);
    const search = await caller.post('/sessions/search', '{"user_metadata":{"__proto__":"y"}}', json);
    expect(search.body).toMatchObject({ sessions: [] });
    expect((await caller.post('/create_session', { tags: [], user_metadata: ['x'] })).status).toBe(422);
  });

  it('a metric without an end is the greatest number, in JSON and in protobuf', async () => {
    const { model } = await caller.model();
    const { body } = await caller.optim(model, 1);
    const metrics = { 'loss:sum': 1, 'ratio:min': Infinity, 'ratio:max': -Infinity, 'x:mean': NaN };
    const { waitFor } = toy.journal;
    toy.journal.waitFor = async () => ({
      state: 'finished',
      lane: model,
      operation: 'pass',
      result: { kind: 'pass', result: { logprobs: [], metrics } },
    });
    try {
      const want = { 'loss:sum': 1, 'ratio:min': Number.MAX_VALUE, 'ratio:max': -Number.MAX_VALUE };
      expect((await caller.result(body.request_id)).metrics).toEqual(want);
      expect(decodePassAnswer(await caller.bytes(body.request_id)).metrics).toEqual(want);
    } finally {
      toy.journal.waitFor = waitFor;
    }
  });
});

it('the session of samples without one is hidden: nobody ends it', async () => {
  const own = new Caller(toy.server.url, 'tml-another');
  const ask = (seq: number) =>
    own.post('/asample', {
      base_model: BASE.name,
      seq_id: seq,
      prompt: { chunks: [{ type: 'encoded_text', tokens: [5] }] },
      sampling_params: { max_tokens: 1 },
    });
  expect((await ask(0)).status).toBe(200);
  const session = await own.session();
  expect((await own.get('/sessions')).body).toEqual({ sessions: [session] });
  const hidden = [...toy.journal.sessionsById.keys()].find((id) => id.startsWith('direct-'));
  expect((await own.post(`/sessions/${hidden}/finish`, { reason: { type: 'success' } })).status).toBe(404);
  expect((await own.post('/session_heartbeat', { session_id: hidden })).status).toBe(404);
  expect((await own.get(`/sessions/${hidden}`)).status).toBe(404);
  expect((await ask(1)).status).toBe(200);
});
