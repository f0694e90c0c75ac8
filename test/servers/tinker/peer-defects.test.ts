/** What a peer's server of this API gets wrong, as black-box checks: each of these would fail there. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BASE, Caller, datum, EOS, floats, startToy, type Toy } from './toy-server.ts';

let toy: Toy;
let caller: Caller;
beforeAll(async () => {
  toy = await startToy();
  caller = new Caller(toy.server.url);
});
afterAll(() => toy.server.close(0));

const data = [datum([5, 6, 7], [6, 7, 8])];
const weighted = (w: number) => [datum([5, 6, 7], [6, 7, 8], { weights: floats(w, w, w) })];
const sum = (row: ArrayLike<number>) => Array.from(row).reduce((total, x) => total + x, 0);

describe('losses', () => {
  it('are sums with loss:sum, so that weights count as they are', async () => {
    const { model } = await caller.model();
    const one = await caller.pass(model, 1, weighted(1), { forwardOnly: true });
    const two = await caller.pass(model, 2, [...weighted(2), ...weighted(-1)], { forwardOnly: true });
    expect(one.metrics['loss:sum']).toBeCloseTo(-sum(one.logprobs[0]!), 5);
    expect(two.metrics['loss:sum']).toBeCloseTo(one.metrics['loss:sum']!, 5);
  });

  it('give gradients that double with their weights', async () => {
    const norms = [];
    for (const weight of [1, 2]) {
      const { model } = await caller.model();
      await caller.pass(model, 1, weighted(weight));
      norms.push((await caller.done(caller.optim(model, 2))).metrics['grad_norm:mean']!);
    }
    expect(norms[1]! / norms[0]!).toBeCloseTo(2, 5);
  });
});

describe('what cannot be is refused at once, by name', () => {
  it('an unknown base model', async () => {
    const session = await caller.session();
    const { status, body } = await caller.createModel(session, { rank: 4 }, { base_model: 'nobody/nothing' });
    expect([status, body.detail]).toEqual([
      400,
      expect.stringContaining('"nobody/nothing" is not served; give /models/toy'),
    ]);
  });

  it.each([
    ['targets of another length', [datum([5, 6, 7], [6, 7])], /target_tokens: 2 values for 3 tokens/],
    ['a token beyond the vocabulary', [datum([5, 10_000_000, 7], [6, 7, 8])], /model_input\[1\]: 10000000 is no token/],
    ['a target beyond it', [datum([5], [64])], /target_tokens\[0\]: 64/],
    ['a negative target', [datum([5], [-100])], /target_tokens\[0\]: -100/],
    ['weights of another length', [datum([5], [6], { weights: floats(1, 1) })], /weights: 2 values for 1/],
    ['NaN', [datum([5], [6], { weights: floats(NaN) })], /NonFiniteInTensor: data\[0\].loss_fn_inputs.weights\[0\]/],
    ['no data', [], /data is empty/],
    ['an empty sequence', [datum([], [])], /no tokens/],
    ['a sequence beyond the context', [datum(Array(129).fill(5), Array(129).fill(5))], /129 tokens exceed .* 128/],
    ['an unknown input', [datum([5], [6], { mask: floats(1) })], /"mask" has no effect on cross_entropy/],
  ])('%s', async (_, wrong, message) => {
    const { model } = await caller.model();
    const { status, body } = await caller.submitPass(model, 1, wrong);
    expect([status, body.detail]).toEqual([400, expect.stringMatching(message)]);
    // The number is still free.
    expect((await caller.submitPass(model, 1, data)).status).toBe(200);
  });

  it.each([
    ['importance_sampling', {}, {}, /logprobs is missing/],
    ['ppo', { logprobs: floats(-1) }, {}, /advantages is missing/],
    [
      'cispo',
      { logprobs: floats(-1), advantages: floats(1), weights: floats(1) },
      {},
      /"weights" has no effect on cispo/,
    ],
    ['ppo', { logprobs: floats(-1), advantages: floats(1) }, { kl: 1 }, /loss_fn_config."kl" has no effect/],
    ['stable_reinforce', {}, {}, /loss_fn: "stable_reinforce" is not known here \(its formula is not published/],
    ['custom', {}, {}, /loss_fn: "custom" is not known here \(custom losses run in the client/],
    ['__proto__', {}, {}, /loss_fn: "__proto__" is not known here; give cross_entropy/],
    ['dro', { logprobs: floats(-1), advantages: floats(1) }, {}, /loss_fn_config.beta is missing/],
    ['dro', { logprobs: floats(-1), advantages: floats(1) }, { beta: -1 }, /loss_fn_config.beta: -1 cannot be used/],
    ['gspo', { logprobs: floats(-1), advantages: floats(1) }, {}, /sequence_ratio_mask is missing; gspo needs it/],
    [
      'gspo',
      { logprobs: floats(-1), advantages: floats(1), sequence_ratio_mask: floats(0) },
      {},
      /sequence_ratio_mask marks no token/,
    ],
  ])('%s without its inputs, or with what it does not know', async (loss, inputs, config, message) => {
    const { model } = await caller.model();
    const { status, body } = await caller.submitPass(model, 1, [datum([5], [6], inputs as never)], {
      loss,
      config: config as never,
    });
    expect([status, body.detail]).toEqual([400, expect.stringMatching(message)]);
  });
});

describe('samples', () => {
  const sampler = async (body: object) => {
    const session = await caller.session();
    const made = await caller.post('/create_sampling_session', {
      session_id: session,
      sampling_session_seq_id: 0,
      ...body,
    });
    return made.body.sampling_session_id as string;
  };

  it('name their sequences, and stop at the end token, which they contain once', async () => {
    const id = await sampler({ base_model: BASE.name });
    const { body } = await caller.submitSample(id, 0, [5], { max_tokens: 100 }, { num_samples: 3 });
    expect(body.sample_sequence_ids).toHaveLength(3);
    expect(new Set(body.sample_sequence_ids).size).toBe(3);
    const { sequences } = await caller.sample(id, 1, [5], { max_tokens: 100 }, { num_samples: 16 });
    const stopped = sequences.filter(({ finish }) => finish === 'stop');
    expect(stopped.length).toBeGreaterThan(0);
    for (const { tokens } of stopped) expect(tokens.indexOf(EOS)).toBe(tokens.length - 1);
    const endless = await caller.sample(id, 2, [5], { max_tokens: 100, stop: [] }, { num_samples: 4 });
    expect(endless.sequences.map(({ tokens }) => tokens.length)).toEqual([100, 100, 100, 100]);
  });

  it('have a log-probability per prompt token, the first of them none, and the likeliest', async () => {
    const id = await sampler({ base_model: BASE.name });
    const rest = { prompt_logprobs: true, topk_prompt_logprobs: 2, topk_sample_logprobs: 3 };
    const { promptLogprobs, topPrompt, sequences } = await caller.sample(id, 0, [5, 6, 7], {}, rest);
    expect(Array.from(promptLogprobs!, Number.isNaN)).toEqual([true, false, false]);
    expect(topPrompt!.map((row) => row.length)).toEqual([0, 2, 2]);
    expect(sequences[0]!.top!.every((row) => row.length === 3)).toBe(true);
  });

  it('of saved weights neither change what trains on nor follow it', async () => {
    const { model, session } = await caller.model();
    await caller.pass(model, 1, data);
    const saved = await caller.done(
      caller.post('/save_weights_for_sampler', { model_id: model, path: 'one', seq_id: 2 }),
    );
    expect(saved.path).toBe(`tinker://${model}/sampler_weights/one`);
    const made = await caller.post('/create_sampling_session', {
      session_id: session,
      sampling_session_seq_id: 0,
      model_path: saved.path,
    });
    const id = made.body.sampling_session_id;
    const before = await caller.sample(id, 0, [5, 6], { seed: 1 });
    await caller.done(caller.optim(model, 3, { learning_rate: 5 }));
    expect(await caller.sample(id, 1, [5, 6], { seed: 1 })).toEqual(before);
    const trained = await caller.pass(model, 4, data, { forwardOnly: true });
    await caller.sample(id, 2, [5, 6]);
    expect(await caller.pass(model, 5, data, { forwardOnly: true })).toEqual(trained);
  });

  it('draw their seed once: a request that is sent again is the same future', async () => {
    const id = await sampler({ base_model: BASE.name });
    const [first, again] = [await caller.submitSample(id, 7, [5]), await caller.submitSample(id, 7, [5])];
    expect(again.body).toEqual(first.body);
    const other = await caller.submitSample(id, 7, [6]);
    expect([other.status, other.body.detail]).toEqual([400, expect.stringMatching(/seq_id: another request/)]);
  });

  it('take the numbers of copied clients, which a double cannot hold', async () => {
    const id = await sampler({ base_model: BASE.name });
    const body = (seq: string, token: number) =>
      `{"sampling_session_id":"${id}","seq_id": ${seq},"prompt":{"chunks":[{"type":"encoded_text","tokens":[${token}]}]},"sampling_params":{"max_tokens":1}}`;
    const one = await caller.post('/asample', body('912345678000000001', 5));
    const two = await caller.post('/asample', body('912345678000000002', 6));
    expect([one.status, two.status]).toEqual([200, 200]);
    expect(one.body.request_id).not.toBe(two.body.request_id);
    expect((await caller.post('/asample', body('912345678000000001', 5))).body).toEqual(one.body);
  });
});

describe('models', () => {
  it('are created once where the request is sent again, with the seed that was drawn', async () => {
    const session = await caller.session();
    const [one, two] = [await caller.createModel(session), await caller.createModel(session)];
    expect(two.body).toEqual(one.body);
    const other = await caller.createModel(session, { rank: 8 });
    expect(other.status).toBe(400);
  });

  it('are loaded from a checkpoint by session, without a model id, under the id that the SDK computes', async () => {
    const { model, session } = await caller.model();
    await caller.pass(model, 1, data);
    await caller.done(caller.optim(model, 2));
    const { path } = await caller.done(caller.post('/save_weights', { model_id: model, path: 'a', seq_id: 3 }));
    const wanted = await caller.pass(model, 4, data, { forwardOnly: true });
    const loaded = await caller.post('/load_weights', { session_id: session, model_seq_id: 1, path, optimizer: true });
    const second = `${session}:train:1`;
    expect(loaded.body.model_id).toBe(second);
    expect((await caller.result(loaded.body.request_id)).model_id).toBe(second);
    expect(await caller.pass(second, 1, data, { forwardOnly: true })).toEqual(wanted);
    expect((await caller.post('/get_info', { model_id: second })).body).toMatchObject({
      model_data: { model_name: BASE.name, tokenizer_id: BASE.dir },
      lora_rank: 4,
    });
  });

  it('honour grad_clip_norm, and refuse an optimizer that is not here', async () => {
    const { model } = await caller.model();
    const accepted = await caller.optim(model, 1, { learning_rate: 0.1, grad_clip_norm: 0.5 });
    expect(toy.journal.entries.get(accepted.body.request_id)?.operation).toMatchObject({ adam: { gradClipNorm: 0.5 } });
    const dimuon = await caller.post('/optim_step', {
      model_id: model,
      seq_id: 2,
      optimizer_params: { type: 'dimuon' },
    });
    expect([dimuon.status, dimuon.body.detail]).toEqual([400, expect.stringMatching(/"dimuon" is not supported/)]);
    for (const adam of [{ beta1: 1 }, { learning_rate: -1 }, { amsgrad: 1 }])
      expect((await caller.optim(model, 2, adam)).status).toBeOneOf([400, 422]);
  });
});

describe('checkpoints', () => {
  it('keep metadata and lifetime; a used name fails at once, and overwrite replaces it', async () => {
    const { model } = await caller.model();
    const save = (seq: number, rest: object = {}) =>
      caller.done(caller.post('/save_weights', { model_id: model, path: 'x', seq_id: seq, ...rest }));
    await save(1, { ttl_seconds: 7200, user_metadata: { note: 'first' } });
    const listed = await caller.get(`/training_runs/${model}/checkpoints`);
    expect(listed.body.checkpoints).toMatchObject([
      {
        checkpoint_id: 'weights/x',
        checkpoint_type: 'training',
        user_metadata: { note: 'first' },
        expires_at: expect.stringMatching(/Z$/),
      },
    ]);
    expect(await save(2)).toMatchObject({ error: expect.stringMatching(/exists/), category: 'user' });
    expect(await save(3, { overwrite: true })).toMatchObject({ path: `tinker://${model}/weights/x` });
  });

  it('are refused for names that the SDK could not parse, and for lifetimes out of bounds', async () => {
    const { model } = await caller.model();
    for (const wrong of [
      { path: 'a/b' },
      { path: '../x' },
      { path: '' },
      { path: 'x', ttl_seconds: 60 },
      { path: 'x', ttl_seconds: 1e10 },
    ])
      expect((await caller.post('/save_weights', { model_id: model, seq_id: 1, ...wrong })).status).toBe(400);
  });
});

describe('endpoints that are missing there', () => {
  it('list checkpoints and sessions, and finish a session, which then takes nothing', async () => {
    const own = new Caller(toy.server.url, 'tml-lists');
    const { model, session } = await own.model();
    await own.done(own.post('/save_weights', { model_id: model, path: 'x', seq_id: 1 }));
    expect((await own.get('/checkpoints?limit=5')).body).toMatchObject({
      checkpoints: [{ checkpoint_id: 'weights/x' }],
      cursor: { total_count: 1 },
    });
    expect((await own.get('/sessions')).body).toEqual({ sessions: [session] });
    expect((await own.get(`/sessions/${session}`)).body).toMatchObject({ training_run_ids: [model] });
    expect((await own.post(`/sessions/${session}/finish`, { reason: { type: 'success' }, detail: null })).status).toBe(
      200,
    );
    const refused = await own.optim(model, 2);
    expect([refused.status, refused.body.detail]).toEqual([400, expect.stringMatching(/is finished \(success\)/)]);
    expect((await own.post('/session_heartbeat', { session_id: session })).status).toBe(410);
  });

  it('say 404 for a future that is not', async () => {
    const { status, body } = await caller.post('/retrieve_future', { request_id: 'nothing' });
    expect([status, body.detail]).toEqual([404, expect.stringMatching(/"nothing" does not exist/)]);
  });
});
