/**
 * A small Tinker server in this process, over any backend of the seam: it speaks the real wire codec, remembers what it
 * was asked, and can lose its models as a server that is killed does.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encodePassAnswer } from '../../../endpoints/tinker/wire/pass-answer.ts';
import { decodePassRequest, type PassRequest } from '../../../endpoints/tinker/wire/pass-request.ts';
import { encodeSampleAnswer } from '../../../endpoints/tinker/wire/sample-answer.ts';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import type { BackendDefinition, TrainingSequence } from '../../../trainer/backends/definition.ts';

const PROTOBUF = 'application/x-protobuf';
const signal = new AbortController().signal;

export interface ServerManners {
  /** As SkyRL's JAX backend: means over tokens and sequences, models loaded before their weights, no metrics. */
  readonly likeSkyRl?: boolean;
  /** Passes and their results are JSON, as before SDK 0.25. */
  readonly jsonPasses?: boolean;
  /** `optim_step` returns no metrics. */
  readonly tellsNoNorm?: boolean;
  readonly key?: string;
  readonly contextTokens?: number;
}

interface Model {
  readonly state: unknown;
  readonly base: string;
  /** What waits for the next step: with means its number of sequences is known only then. */
  readonly waiting: PassRequest[];
  /** The number that its next request must have. */
  next: number;
}

type Json = Record<string, never> & Record<string, unknown>;
type Done = { readonly json: unknown } | { readonly bytes: Uint8Array };

class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const algorithm = { loss: 'cross_entropy' } as unknown as UpdateSettings;

export class TinkerTestServer {
  readonly #backend: BackendDefinition;
  readonly #base: string;
  readonly #manners: ServerManners;
  readonly #server: Server;
  readonly #models = new Map<string, Model>();
  readonly #samplers = new Map<string, { base?: string; path?: string }>();
  readonly #checkpoints = new Map<string, { uri: string; base: string }>();
  readonly #futures = new Map<string, Promise<Done>>();
  #count = 0;
  /** Paths of requests, in order. */
  readonly asked: string[] = [];
  /** Bodies of `optim_step`. */
  readonly steps: Json[] = [];
  /** Losses of passes with a gradient. */
  readonly losses: string[] = [];
  /** What the next requests of a path are answered with instead. */
  readonly failures: Array<{ readonly path: string; readonly status: number; readonly body?: string }> = [];

  private constructor(backend: BackendDefinition, base: string, manners: ServerManners) {
    this.#backend = backend;
    this.#base = base;
    this.#manners = manners;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** `base`: the backend's first policy, which the server has as `tiny`. */
  static async start(backend: BackendDefinition, base: string, manners: ServerManners = {}): Promise<TinkerTestServer> {
    const made = new TinkerTestServer(backend, base, manners);
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** As a server that was killed and started again: saved states are left. */
  forget(): void {
    this.#models.clear();
    if (this.#manners.likeSkyRl !== true) this.#samplers.clear();
  }

  get modelsLoaded(): number {
    return this.#models.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const path = (request.url ?? '').replace('/api/v1/', '');
    this.asked.push(path);
    const reply = (status: number, type: string, bytes: Uint8Array | string) =>
      response.writeHead(status, { 'content-type': type }).end(bytes);
    try {
      const failing = this.failures.findIndex((one) => one.path === path);
      const [failure] = failing < 0 ? [] : this.failures.splice(failing, 1);
      if (failure) throw new Refused(failure.status, failure.body ?? 'as the test asked');
      if (this.#manners.key !== undefined && request.headers['x-api-key'] !== this.#manners.key)
        throw new Refused(401, `wrong key ${String(request.headers['x-api-key'])}`);
      const isProtobuf = request.headers['content-type'] === PROTOBUF;
      const done = await this.#handle(path, isProtobuf ? body : (JSON.parse(body.toString() || '{}') as Json));
      if ('json' in done) reply(200, 'application/json', JSON.stringify(done.json));
      else reply(200, PROTOBUF, done.bytes);
    } catch (error) {
      const status = error instanceof Refused ? error.status : 500;
      reply(status, 'application/json', JSON.stringify({ detail: (error as Error).message }));
    }
  }

  #future(work: () => Promise<Done>): Done {
    const id = String(++this.#count);
    const promise = work();
    promise.catch(() => undefined);
    this.#futures.set(id, promise);
    return { json: { request_id: id } };
  }

  #model(id: unknown): Model {
    const model = this.#models.get(String(id));
    if (model === undefined) throw new Refused(400, `Model ${String(id)} not loaded`);
    return model;
  }

  /** Requests of a model come in order. */
  #inOrder(id: string, seq: number): void {
    const model = this.#model(id);
    if (seq !== model.next) throw new Refused(400, `seq_id ${seq} instead of ${model.next}`);
    model.next += 1;
  }

  async #create(uri: string, base: string, optimizer: boolean): Promise<string> {
    const state = await this.#backend.open({ uri, optimizer }, signal);
    const id = `model_${++this.#count}`;
    this.#models.set(id, { state, base, waiting: [], next: 1 });
    return id;
  }

  async #handle(path: string, body: Json | Buffer): Promise<Done> {
    if (Buffer.isBuffer(body)) {
      if (this.#manners.jsonPasses === true) throw new Refused(415, 'JSON alone');
      const request = decodePassRequest(body);
      this.#inOrder(request.modelId, request.seq);
      return this.#future(() => this.#pass(request));
    }
    const { model_id: model, seq_id: seq } = body;
    if (model !== undefined && seq !== undefined) this.#inOrder(String(model), Number(seq));
    switch (path) {
      case 'create_session':
        return { json: { session_id: `session_${++this.#count}` } };
      case 'session_heartbeat':
        return { json: { type: 'session_heartbeat' } };
      case 'get_server_capabilities':
        return { json: { supported_models: [{ model_name: 'tiny', max_context_length: this.#manners.contextTokens }] } };
      case 'weights_info': {
        const found = this.#checkpoints.get(String(body['tinker_path']));
        if (found === undefined) throw new Refused(404, 'Checkpoint not found');
        return { json: { base_model: found.base, is_lora: true, lora_rank: 4 } };
      }
      case 'create_model': {
        const made = await this.#create(this.#base, String(body['base_model']), true);
        return this.#future(() => Promise.resolve({ json: { model_id: made } }));
      }
      case 'load_weights':
        return this.#load(body);
      case 'forward':
      case 'forward_backward':
        return this.#future(() => this.#pass(fromJson(body)));
      case 'optim_step':
        this.steps.push(body);
        return this.#future(() => this.#step(body));
      case 'save_weights':
      case 'save_weights_for_sampler':
        return this.#future(() => this.#save(path, body));
      case 'create_sampling_session': {
        const id = `sampling_${++this.#count}`;
        const [base, at] = [body['base_model'] as string | undefined, body['model_path'] as string | undefined];
        this.#samplers.set(id, { ...(base !== undefined && { base }), ...(at !== undefined && { path: at }) });
        return { json: { sampling_session_id: id } };
      }
      case 'asample':
        return this.#future(() => this.#sample(body));
      case 'unload_model':
        this.#models.delete(String(body['model_id']));
        return this.#future(() => Promise.resolve({ json: {} }));
      case 'retrieve_future': {
        const found = this.#futures.get(String(body['request_id']));
        if (found === undefined) throw new Refused(404, 'Future not found');
        return found;
      }
      default:
        throw new Refused(404, 'Not Found');
    }
  }

  #load(body: Json): Done {
    const { likeSkyRl = false } = this.#manners;
    if (likeSkyRl && body['model_id'] === undefined)
      throw new Refused(422, '[{"type":"missing","loc":["body","model_id"],"msg":"Field required"}]');
    const found = this.#checkpoints.get(String(body['path']));
    if (found === undefined) throw new Refused(404, 'Checkpoint not found');
    return this.#future(async () => {
      const state = await this.#backend.open({ uri: found.uri, optimizer: body['optimizer'] === true }, signal);
      const id = likeSkyRl ? String(body['model_id']) : `${String(body['session_id'])}:train:${String(body['model_seq_id'])}`;
      const next = this.#models.get(id)?.next ?? 1;
      this.#models.set(id, { state, base: found.base, waiting: [], next });
      return { json: { model_id: id } };
    });
  }

  async #pass(request: PassRequest): Promise<Done> {
    const model = this.#model(request.modelId);
    if (!request.forwardOnly) this.losses.push(request.loss);
    const sequences = request.data.map(sequenceOf);
    const all = (await this.#backend.forward(model.state, sequences, signal)).map((row) => Float32Array.from(row));
    const sum = request.data.reduce((total, one, i) => total + lossOf(request, one, all[i] ?? []).loss, 0);
    if (!request.forwardOnly) model.waiting.push(request);
    const logprobs = all;
    const metrics = this.#manners.likeSkyRl === true ? {} : { 'loss:sum': sum };
    if (this.#manners.jsonPasses !== true) return { bytes: encodePassAnswer({ logprobs, metrics }) };
    const outputs = logprobs.map((row) => ({ logprobs: { data: [...row], dtype: 'float32', shape: [row.length] } }));
    return { json: { loss_fn_output_type: 'ArrayRecord', loss_fn_outputs: outputs, metrics } };
  }

  async #step(body: Json): Promise<Done> {
    const model = this.#model(body['model_id']);
    const count = model.waiting.reduce((sum, { data }) => sum + data.length, 0);
    for (const request of model.waiting.splice(0)) {
      const scale = request.data.map((one) => {
        if (this.#manners.likeSkyRl !== true) return 1;
        return 1 / Math.max(1e-9, values(one, 'weights', 1).reduce((a, b) => a + b, 0)) / count;
      });
      await this.#backend.forwardBackward(
        model.state,
        {
          sequences: request.data.map(sequenceOf),
          algorithm,
          entropies: false,
          entropyWeight: 0,
          noiseKey: '',
          objective: (logprobs) => {
            let from = 0;
            const gradient: number[] = [];
            for (const [i, one] of request.data.entries()) {
              const own = Array.from({ length: one.tokens.length }, (_, k) => logprobs[from + k] ?? 0);
              from += own.length;
              gradient.push(...lossOf(request, one, own).slopes.map((slope) => slope * (scale[i] ?? 1)));
            }
            return { policyLoss: 0, klLoss: 0, gradient: Float64Array.from(gradient), metrics: {} };
          },
        },
        signal,
      );
    }
    const adam = body['adam_params'] as unknown as Record<string, number>;
    const { gradNorm } = await this.#backend.optimStep(
      model.state,
      {
        learningRate: adam['learning_rate'] ?? 0,
        betas: [adam['beta1'] ?? 0, adam['beta2'] ?? 0],
        epsilon: adam['eps'] ?? 0,
        weightDecay: adam['weight_decay'] ?? 0,
        maxGradNorm: adam['grad_clip_norm'] === 0 ? null : (adam['grad_clip_norm'] ?? null),
      },
      signal,
    );
    const name = this.#manners.likeSkyRl === true ? 'skyrl.ai/grad_norm' : 'grad_norm:mean';
    return { json: { metrics: this.#manners.tellsNoNorm === true ? {} : { [name]: gradNorm } } };
  }

  async #save(path: string, body: Json): Promise<Done> {
    const id = String(body['model_id']);
    const model = this.#model(id);
    const name = String(body['path']);
    if (!/^[A-Za-z0-9_-]{1,255}$/.test(name)) throw new Refused(422, 'the name');
    const { uri } = await this.#backend.saveState(model.state, { name: `${id}/${name}`, version: 0 }, signal);
    const kind = path === 'save_weights' ? 'weights' : 'sampler_weights';
    const at = `tinker://${id}/${kind}/${name}`;
    this.#checkpoints.set(at, { uri, base: model.base });
    if (this.#manners.likeSkyRl !== true || kind === 'weights') return { json: { path: at } };
    // Its own SDK cannot parse this form.
    this.#checkpoints.set(`tinker://${id}/${name}`, { uri, base: model.base });
    return { json: { path: `tinker://${id}/${name}` } };
  }

  async #sample(body: Json): Promise<Done> {
    const sampler = this.#samplers.get(String(body['sampling_session_id']));
    if (sampler === undefined) throw new Refused(404, 'Sampling session not found');
    const { base, path = '' } = sampler;
    if (base === undefined && this.#manners.likeSkyRl === true) this.#model(/^tinker:\/\/([^/]+)\//.exec(path)?.[1]);
    const uri = base === undefined ? this.#checkpoints.get(path)?.uri : this.#base;
    if (uri === undefined) throw new Refused(404, 'Checkpoint not found');
    const asked = body['sampling_params'] as unknown as Record<string, number> & { stop: number[] };
    const prompt = body['prompt'] as unknown as { chunks: ReadonlyArray<{ tokens: number[] }> };
    const answer = await this.#backend.sample(
      {
        uri,
        tokens: prompt.chunks.flatMap(({ tokens }) => tokens),
        sampling: {
          temperature: asked['temperature'] ?? 1,
          topP: asked['top_p'] ?? 1,
          topK: 0,
          maxTokens: asked['max_tokens'] ?? 0,
        },
        stopTokenIds: asked.stop,
        noiseKey: String(asked['seed']),
        rollout: '',
      },
      signal,
    );
    const { tokens, logprobs, finish } = answer;
    if (finish === 'context') throw new Refused(400, 'the context is full');
    const sequence = { tokens: Int32Array.from(tokens), logprobs: Float32Array.from(logprobs), finish };
    if (this.#manners.jsonPasses !== true) return { bytes: encodeSampleAnswer({ sequences: [sequence] }) };
    return { json: { sequences: [{ tokens: [...tokens], logprobs: [...logprobs], stop_reason: finish }] } };
  }
}

type WireDatum = PassRequest['data'][number];

function fromJson(body: Json): PassRequest {
  const isForward = body['forward_input'] !== undefined;
  const given = (isForward ? body['forward_input'] : body['forward_backward_input']) as unknown as {
    loss_fn: string;
    loss_fn_config?: Record<string, number>;
    data: ReadonlyArray<{
      model_input: { chunks: ReadonlyArray<{ tokens: number[] }> };
      loss_fn_inputs: Record<string, { data: number[] }>;
    }>;
  };
  return {
    modelId: String(body['model_id']),
    seq: Number(body['seq_id']),
    loss: given.loss_fn,
    config: given.loss_fn_config ?? {},
    forwardOnly: isForward,
    data: given.data.map(({ model_input: { chunks }, loss_fn_inputs: inputs }) => ({
      tokens: Int32Array.from(chunks.flatMap(({ tokens }) => tokens)),
      inputs: Object.fromEntries(
        Object.entries(inputs).map(([name, { data }]) => [
          name,
          { dtype: 'float32' as const, shape: [data.length], values: Float64Array.from(data) },
        ]),
      ),
    })),
  };
}

/** The whole sequence; every token but the first counts. */
function sequenceOf({ tokens, inputs }: WireDatum): TrainingSequence {
  const targets = inputs['target_tokens']?.values ?? [];
  const all = [...tokens, targets[tokens.length - 1] ?? 0];
  const zeros = new Float64Array(tokens.length);
  for (let i = 0; i < tokens.length; i += 1)
    if (targets[i] !== all[i + 1]) throw new Refused(400, `target ${i} is not the next token`);
  return { tokens: all, mask: all.map(() => 1), advantages: zeros, recorded: zeros, old: zeros };
}

const values = ({ inputs, tokens }: WireDatum, name: string, absent: number): number[] =>
  Array.from({ length: tokens.length }, (_, i) => inputs[name]?.values[i] ?? absent);

/** Tinker's losses over all targets of a datum, and their slopes by the log-probabilities. */
function lossOf({ loss, config }: PassRequest, datum: WireDatum, logprobs: ArrayLike<number>) {
  const weights = values(datum, 'weights', 1);
  const [old, advantages] = [values(datum, 'logprobs', 0), values(datum, 'advantages', 0)];
  const clip = (ratio: number) =>
    Math.min(Number(config['clip_high_threshold']), Math.max(Number(config['clip_low_threshold']), ratio));
  let sum = 0;
  const slopes = weights.map((weight, i) => {
    const p = logprobs[i] ?? 0;
    const [advantage, ratio] = [advantages[i] ?? 0, Math.exp(p - (old[i] ?? 0))];
    const term = (): readonly [number, number] => {
      switch (loss) {
        case 'cross_entropy':
          return [-p, -1];
        case 'importance_sampling':
          return [-ratio * advantage, -ratio * advantage];
        case 'ppo': {
          const [plain, bounded] = [ratio * advantage, clip(ratio) * advantage];
          return bounded < plain ? [-bounded, 0] : [-plain, -plain];
        }
        default:
          throw new Refused(400, `no loss ${loss}`);
      }
    };
    const [value, slope] = term();
    sum += weight * value;
    return weight * slope;
  });
  return { loss: sum, slopes };
}
