/** The Tinker API's server over a journal in memory and a toy engine; and what sends it requests as the SDK does. */

import { decodePassAnswer } from '../../../endpoints/tinker/wire/pass-answer.ts';
import { encodePassRequest, type WireDatum } from '../../../endpoints/tinker/wire/pass-request.ts';
import { decodeSampleAnswer } from '../../../endpoints/tinker/wire/sample-answer.ts';
import type { WireTensor } from '../../../endpoints/tinker/wire/tensor.ts';
import { TinkerServer, type TinkerServerOptions } from '../../../servers/tinker/tinker-server.ts';
import { MemoryJournal } from './memory-journal.ts';
import { ToyEngine } from './toy-engine.ts';

export const KEY = 'tml-a-test';
export const EOS = 2;
export const BASE = {
  name: '/models/toy',
  aliases: ['toy'],
  dir: '/models/toy',
  architecture: 'Toy',
  vocabSize: 64,
  contextTokens: 128,
};

export interface Toy {
  readonly server: TinkerServer;
  readonly journal: MemoryJournal;
  readonly engine: ToyEngine;
}

export async function startToy(
  options: Partial<TinkerServerOptions> = {},
  base: Partial<typeof BASE> = {},
): Promise<Toy> {
  const journal = new MemoryJournal();
  const served = { ...BASE, ...base };
  const engine = new ToyEngine(journal, { vocab: served.vocabSize, eos: EOS });
  const server = await TinkerServer.start({ host: '127.0.0.1', port: 0, ...options });
  server.open({ journal, bases: [served] });
  return { server, journal, engine };
}

/** The fields that tests read; each answer has some of them. */
interface Body {
  readonly detail: string;
  readonly request_id: string;
  readonly model_id: string;
  readonly session_id: string;
  readonly sampling_session_id: string;
  readonly sample_sequence_ids: readonly string[];
  readonly path: string;
  readonly checkpoints: readonly unknown[];
  readonly metrics: Readonly<Record<string, number>>;
}

export interface Answered {
  readonly status: number;
  readonly body: Body;
}

export const ints = (...values: number[]): WireTensor => ({
  dtype: 'int64',
  shape: [values.length],
  values: Float64Array.from(values),
});
export const floats = (...values: number[]): WireTensor => ({
  dtype: 'float32',
  shape: [values.length],
  values: Float32Array.from(values),
});

/** A client of the API, of one key. */
export class Caller {
  readonly #url: string;
  readonly #key: string;

  constructor(url: string, key = KEY) {
    this.#url = `${url}/api/v1`;
    this.#key = key;
  }

  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answered> {
    const isBytes = body instanceof Uint8Array;
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        'x-api-key': this.#key,
        ...(body === undefined || isBytes ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: isBytes ? Buffer.from(body) : typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: JSON.parse(text) as Body };
  }
  post = (path: string, body: unknown, headers?: Record<string, string>) => this.send('POST', path, body, headers);
  get = (path: string) => this.send('GET', path);

  async session(): Promise<string> {
    return (await this.post('/create_session', { tags: [], user_metadata: null, sdk_version: '0.38.0' })).body
      .session_id;
  }

  /** A new model in a new session. */
  async model(): Promise<{ readonly session: string; readonly model: string }> {
    const session = await this.session();
    const made = await this.createModel(session);
    await this.result(made.body.request_id);
    return { session, model: made.body.model_id };
  }
  createModel = (session: string, lora: object = { rank: 4 }, rest: object = {}) =>
    this.post('/create_model', {
      session_id: session,
      model_seq_id: 0,
      base_model: BASE.name,
      lora_config: lora,
      ...rest,
    });

  submitPass(
    modelId: string,
    seq: number,
    data: readonly WireDatum[],
    { loss = 'cross_entropy', config = {}, forwardOnly = false } = {},
  ): Promise<Answered> {
    const bytes = encodePassRequest({ modelId, seq, loss, config, forwardOnly, data });
    return this.post('/forward_backward', bytes, { 'content-type': 'application/x-protobuf' });
  }

  async pass(...of: Parameters<Caller['submitPass']>) {
    const { status, body } = await this.submitPass(...of);
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    return decodePassAnswer(await this.bytes(body.request_id));
  }

  submitSample = (sampler: string, seq: number, prompt: readonly number[], params: object = {}, rest: object = {}) =>
    this.post('/asample', {
      sampling_session_id: sampler,
      seq_id: seq,
      num_samples: 1,
      prompt: { chunks: [{ type: 'encoded_text', tokens: prompt }] },
      sampling_params: { max_tokens: 4, temperature: 1, top_k: -1, top_p: 1, ...params },
      ...rest,
    });

  async sample(...of: Parameters<Caller['submitSample']>) {
    const { status, body } = await this.submitSample(...of);
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    return decodeSampleAnswer(await this.bytes(body.request_id));
  }

  optim = (model: string, seq: number, adam: object = { learning_rate: 0.1 }) =>
    this.post('/optim_step', { model_id: model, seq_id: seq, adam_params: adam });

  /** A JSON result. */
  async result(requestId: string, rest: object = {}): Promise<Body> {
    return (await this.post('/retrieve_future', { request_id: requestId, allow_metadata_only: true, ...rest })).body;
  }

  async done(answered: Promise<Answered>): Promise<Body> {
    const { status, body } = await answered;
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    return this.result(body.request_id);
  }

  /** A result in protobuf. */
  async bytes(requestId: string): Promise<Buffer> {
    const response = await fetch(`${this.#url}/retrieve_future`, {
      method: 'POST',
      headers: { 'x-api-key': this.#key, 'content-type': 'application/json', accept: 'application/x-protobuf' },
      body: JSON.stringify({ request_id: requestId }),
    });
    if (response.headers.get('content-type') !== 'application/x-protobuf') throw new Error(await response.text());
    return Buffer.from(await response.arrayBuffer());
  }
}

export const datum = (tokens: number[], targets: number[], inputs: Record<string, WireTensor> = {}): WireDatum => ({
  tokens: Int32Array.from(tokens),
  inputs: { target_tokens: ints(...targets), ...inputs },
});
