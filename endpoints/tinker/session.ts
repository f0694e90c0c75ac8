/**
 * A session of a Tinker server, with its heartbeats, and the models that are trained in it. Requests of a model are
 * numbered from 1 and sent in order; a repeated request has its number, so that a server runs it once.
 */

import { EndpointError } from '../endpoint-error.ts';
import { type Answer, type Body, jsonOf, type TinkerRequests, TinkerRefused } from './requests.ts';
import { retrieveFuture } from './retrieve-future.ts';
import { decodePassAnswer } from './wire/pass-answer.ts';
import { encodePassRequest, type PassRequest } from './wire/pass-request.ts';
import type { TinkerPassResult } from '../../protocol/tinker.ts';

type Json = Readonly<Record<string, unknown>>;
const never = new AbortController().signal;
const HEARTBEAT_MS = 10_000;

function textIn(value: Json, field: string, what: string): string {
  const text = value[field];
  if (typeof text === 'string' && text !== '') return text;
  throw new EndpointError('protocol', `${what}: the answer has no ${field}`);
}

/** The older form of an answer: JSON with `loss_fn_outputs`. */
function passFromJson(value: Json): TinkerPassResult {
  const outputs = Array.isArray(value['loss_fn_outputs']) ? (value['loss_fn_outputs'] as readonly unknown[]) : [];
  const logprobs = outputs.map((one, i) => {
    const data = (one as { logprobs?: { data?: unknown } } | null)?.logprobs?.data;
    if (!Array.isArray(data)) throw new EndpointError('protocol', `loss_fn_outputs[${i}] has no logprobs`);
    return Float32Array.from(data, Number);
  });
  const metrics = Object.entries((value['metrics'] ?? {}) as Json).flatMap(([name, one]) =>
    typeof one === 'number' ? [[name, one] as const] : [],
  );
  return { logprobs, metrics: Object.fromEntries(metrics) };
}

/** The older form of a request. */
function passToJson({ modelId, seq, loss, config, data, forwardOnly }: PassRequest): Json {
  const input = {
    data: data.map(({ tokens, inputs }) => ({
      model_input: { chunks: [{ type: 'encoded_text', tokens: [...tokens] }] },
      loss_fn_inputs: Object.fromEntries(
        Object.entries(inputs).map(([name, { values, dtype, shape }]) => [name, { data: [...values], dtype, shape }]),
      ),
    })),
    loss_fn: loss,
    ...(Object.keys(config).length > 0 && { loss_fn_config: config }),
  };
  return { model_id: modelId, seq_id: seq, [forwardOnly ? 'forward_input' : 'forward_backward_input']: input };
}

/** What a server takes, found by what it refused. */
export interface Dialect {
  /** Passes as JSON: servers of before SDK 0.25. */
  jsonPasses?: boolean;
  /** `load_weights` into a model that was created before. */
  loadsIntoModel?: boolean;
  /** A checkpoint is sampled only while its model is loaded. */
  samplesLoadedModels?: boolean;
}

export class TinkerSession {
  readonly requests: TinkerRequests;
  readonly dialect: Dialect;
  readonly id: string;
  readonly #beat: NodeJS.Timeout;
  #models = 0;
  #samplers = 0;

  private constructor(requests: TinkerRequests, dialect: Dialect, id: string) {
    this.requests = requests;
    this.dialect = dialect;
    this.id = id;
    this.#beat = setInterval(() => {
      const body = { json: { session_id: id, type: 'session_heartbeat' } };
      // A lost session shows where it is used.
      requests.once('session_heartbeat', body, never, HEARTBEAT_MS).catch(() => undefined);
    }, HEARTBEAT_MS);
    this.#beat.unref();
  }

  static async open(requests: TinkerRequests, dialect: Dialect, signal: AbortSignal): Promise<TinkerSession> {
    const body = { tags: ['longhaul'], user_metadata: {}, sdk_version: '0.38.0', type: 'create_session' };
    const answer = await requests.json('create_session', body, signal);
    return new TinkerSession(requests, dialect, textIn(answer, 'session_id', 'create_session'));
  }

  /** An accepted request, and the answer to its acceptance. */
  async #future(path: string, body: Body, signal: AbortSignal): Promise<{ id: string; accepted: Json }> {
    const accepted = jsonOf(await this.requests.submit(path, body, signal));
    return { id: textIn(accepted, 'request_id', path), accepted };
  }

  async result(path: string, body: Json, signal: AbortSignal): Promise<Json> {
    const { id, accepted } = await this.#future(path, { json: body }, signal);
    return { ...accepted, ...jsonOf(await retrieveFuture(this.requests, id, path, signal)) };
  }

  /** A request whose result may be protobuf. */
  async answer(path: string, body: Json | Body, signal: AbortSignal): Promise<Answer> {
    const sent = 'protobuf' in body || 'json' in body ? (body as Body) : { json: body };
    const { id } = await this.#future(path, sent, signal);
    return retrieveFuture(this.requests, id, path, signal);
  }

  async createModel(baseModel: string, lora: LoraConfig, signal: AbortSignal): Promise<TinkerModel> {
    this.#models += 1;
    const body = {
      session_id: this.id,
      model_seq_id: this.#models,
      base_model: baseModel,
      lora_config: lora,
      optimizer_config: { type: 'adamw' },
      type: 'create_model',
    };
    const made = await this.result('create_model', body, signal);
    return new TinkerModel(this, textIn(made, 'model_id', 'create_model'));
  }

  /** A new model with a checkpoint's weights. `optimizer`: its moments too. */
  async loadModel(path: string, baseModel: string, optimizer: boolean, signal: AbortSignal): Promise<TinkerModel> {
    if (this.dialect.loadsIntoModel !== true) {
      this.#models += 1;
      const number = this.#models;
      const body = {
        session_id: this.id,
        model_seq_id: number,
        path,
        optimizer,
        base_model: baseModel,
        type: 'load_weights',
      };
      try {
        const loaded = await this.result('load_weights', body, signal);
        const { model_id: id } = loaded;
        return new TinkerModel(this, typeof id === 'string' ? id : `${this.id}:train:${number}`);
      } catch (error) {
        if (!(error instanceof TinkerRefused && error.status === 422 && error.message.includes('model_id')))
          throw error;
        this.dialect.loadsIntoModel = true;
      }
    }
    const { lora_rank: rank } = await this.requests.json('weights_info', { tinker_path: path }, signal);
    const lora = { ...EVERY_LAYER, rank: typeof rank === 'number' ? rank : 32, seed: 0 };
    const model = await this.createModel(baseModel, lora, signal);
    await model.result('load_weights', { path, optimizer, type: 'load_weights' }, signal);
    return model;
  }

  /** A sampler of a base model, or of a checkpoint for samplers. */
  async createSampler(
    what: { base_model: string } | { model_path: string },
    signal: AbortSignal,
  ): Promise<TinkerSampler> {
    this.#samplers += 1;
    const body = {
      session_id: this.id,
      sampling_session_seq_id: this.#samplers,
      ...what,
      type: 'create_sampling_session',
    };
    const made = await this.requests.json('create_sampling_session', body, signal);
    return new TinkerSampler(this, textIn(made, 'sampling_session_id', 'create_sampling_session'));
  }

  /** Servers without `finish` end a session that has no heartbeats. */
  async close(): Promise<void> {
    clearInterval(this.#beat);
    const body = { json: { reason: { type: 'success' } } };
    await this.requests.once(`sessions/${this.id}/finish`, body, never, HEARTBEAT_MS).catch(() => undefined);
  }
}

export interface LoraConfig {
  readonly rank: number;
  readonly seed: number;
  readonly train_unembed: boolean;
  readonly train_mlp: boolean;
  readonly train_attn: boolean;
}

/** As `policy.lora` trains: attention and MLP. */
export const EVERY_LAYER = { train_unembed: false, train_mlp: true, train_attn: true } as const;

/** A model that is trained: its operations run in the order of their calls. */
export class TinkerModel {
  readonly session: TinkerSession;
  readonly id: string;
  #seq = 0;

  constructor(session: TinkerSession, id: string) {
    this.session = session;
    this.id = id;
  }

  result(path: string, body: Json, signal: AbortSignal): Promise<Json> {
    this.#seq += 1;
    return this.session.result(path, { model_id: this.id, seq_id: this.#seq, ...body }, signal);
  }

  /** Log-probabilities of every target, and with `forwardOnly: false` the gradient is added. */
  async pass(given: Omit<PassRequest, 'modelId' | 'seq'>, signal: AbortSignal): Promise<TinkerPassResult> {
    this.#seq += 1;
    const request: PassRequest = { ...given, modelId: this.id, seq: this.#seq };
    const answer = await this.#sendPass(request, signal);
    const result = answer.isProtobuf ? decodePassAnswer(answer.bytes) : passFromJson(jsonOf(answer));
    for (const [i, { tokens }] of given.data.entries())
      if (result.logprobs[i]?.length !== tokens.length)
        throw new EndpointError(
          'protocol',
          `a pass returned ${result.logprobs[i]?.length ?? 0} log-probabilities for ${tokens.length} targets`,
        );
    return result;
  }

  async #sendPass(request: PassRequest, signal: AbortSignal): Promise<Answer> {
    const { session } = this;
    const path = request.forwardOnly && session.dialect.jsonPasses === true ? 'forward' : 'forward_backward';
    if (session.dialect.jsonPasses === true) return session.answer(path, { json: passToJson(request) }, signal);
    try {
      return await session.answer('forward_backward', { protobuf: encodePassRequest(request) }, signal);
    } catch (error) {
      const isUnread = error instanceof TinkerRefused && (error.status === 415 || error.status === 422);
      if (!isUnread || session.dialect.jsonPasses === false) throw error;
      const older = request.forwardOnly ? 'forward' : 'forward_backward';
      const answer = await session.answer(older, { json: passToJson(request) }, signal).catch(() => {
        throw error;
      });
      session.dialect.jsonPasses = true;
      return answer;
    }
  }

  async save(kind: 'save_weights' | 'save_weights_for_sampler', name: string, signal: AbortSignal): Promise<string> {
    const more = kind === 'save_weights' ? { overwrite: false } : { kind: 'snapshot' };
    return textIn(await this.result(kind, { path: name, ...more, type: kind }, signal), 'path', kind);
  }

  /** Servers without it free a model when its session ends. */
  async unload(): Promise<void> {
    const { requests } = this.session;
    const body = { json: { model_id: this.id, type: 'unload_model' } };
    const answer = await requests.once('unload_model', body, never, HEARTBEAT_MS).catch(() => undefined);
    if (answer?.status !== 200) return;
    const { request_id: id } = jsonOf(answer);
    if (typeof id === 'string')
      await retrieveFuture(requests, id, 'unload_model', AbortSignal.timeout(HEARTBEAT_MS)).catch(() => undefined);
  }
}

export class TinkerSampler {
  readonly session: TinkerSession;
  readonly id: string;
  #seq = 0;

  constructor(session: TinkerSession, id: string) {
    this.session = session;
    this.id = id;
  }

  sample(tokens: readonly number[], parameters: Json, signal: AbortSignal): Promise<Answer> {
    this.#seq += 1;
    const body = {
      sampling_session_id: this.id,
      seq_id: this.#seq,
      num_samples: 1,
      prompt: { chunks: [{ type: 'encoded_text', tokens }] },
      sampling_params: parameters,
      prompt_logprobs: false,
      topk_prompt_logprobs: 0,
      type: 'sample',
    };
    return this.session.answer('asample', body, signal);
  }
}
