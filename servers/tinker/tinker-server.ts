/**
 * The Tinker API over HTTP, as Thinking Machines' SDK speaks it: each operation is in the journal before it is
 * acknowledged, and its result can be read until it is forgotten there. Holds no state of its own.
 */

import { randomInt } from 'node:crypto';
import type { z } from 'zod';
import * as bodies from '../../endpoints/tinker/wire/bodies.ts';
import { decodePassRequest } from '../../endpoints/tinker/wire/pass-request.ts';
import type { TinkerJournal } from '../../store/tinker/journal.ts';
import { LOOPBACK } from '../http/admission.ts';
import { type HttpContext, HttpServer, type HttpServerOptions } from '../http/http-server.ts';
import { TINKER_ERRORS } from './api-error.ts';
import * as checkpoints from './checkpoints.ts';
import * as futures from './futures.ts';
import * as models from './models.ts';
import { passOfJson } from './read-pass.ts';
import { readJson } from './parse-json.ts';
import { JSON_TYPE, LIST_BYTES, MOST_BYTES, PROTOBUF_TYPE, readBody, SMALL_BYTES } from './request-body.ts';
import * as samplers from './samplers.ts';
import {
  type Call,
  DEFAULT_QUOTAS,
  digestOf,
  pageOf,
  type ServedBase,
  type TinkerQuotas,
  type TinkerService,
} from './service.ts';
import * as sessions from './sessions.ts';
import { type TenantKey, Tenants } from './tenants.ts';

export interface TinkerServerOptions extends Omit<HttpServerOptions, 'apiKey' | 'admit' | 'healthPaths'> {
  /** Absent: callers on this machine, each key a tenant. */
  readonly keys?: readonly TenantKey[];
  readonly quotas?: Partial<TinkerQuotas>;
  /** How long a result is waited for before the client is asked to come again. */
  readonly holdMs?: number;
}

export interface Served {
  readonly journal: TinkerJournal;
  readonly bases: readonly ServedBase[];
}

/** The SDK sends at most 5 MB in a request, and 50 MB at once. */
const LIMITS = { maxBodyBytes: 32 * 2 ** 20, bodyBudgetBytes: 256 * 2 ** 20, bodySeconds: 60, maxRequests: 4096 };
const ROOT = '/api/v1';
/** Ids of runs have colons, and some clients escape them. */
const RUN = '/training_runs/:run';
const CHECKPOINT = `${RUN}/checkpoints/:folder{weights|sampler_weights}/:name`;

export class TinkerServer {
  readonly #http: HttpServer;
  readonly #tenants: Tenants;
  readonly #quotas: TinkerQuotas;
  readonly #holdMs: number | undefined;
  readonly #host: string;
  readonly #closing = new AbortController();
  #service: TinkerService | undefined;

  private constructor({ keys, quotas, holdMs, limits, ...options }: TinkerServerOptions) {
    this.#tenants = new Tenants(keys);
    this.#quotas = { ...DEFAULT_QUOTAS, ...quotas };
    this.#holdMs = holdMs;
    this.#host = options.host;
    const admit: HttpServerOptions['admit'] = (request) => this.#tenants.admit(request);
    const http = { ...options, limits: { ...LIMITS, ...limits }, admit, healthPaths: [`${ROOT}/healthz`] };
    this.#http = new HttpServer(http, TINKER_ERRORS);
    this.#routeService();
    this.#routeModels();
    this.#routeReads();
  }

  /** Listens; until `open`, requests get 503, which the SDK waits for. Errors: those of listening, as `EADDRINUSE`. */
  static async start(options: TinkerServerOptions): Promise<TinkerServer> {
    const server = new TinkerServer(options);
    await server.#http.start();
    return server;
  }

  open({ journal, bases }: Served): void {
    const now = () => new Date();
    this.#service = { journal, bases, quotas: this.#quotas, now, drawSeed: () => randomInt(0, 2 ** 31 - 1) };
    this.#http.open();
  }

  /** For `TINKER_BASE_URL`. */
  get url(): string {
    return this.#http.url;
  }

  get answered(): number {
    return this.#http.answered;
  }

  /** Answers those who wait for results at once; other requests have `graceMs` milliseconds. */
  async close(graceMs: number): Promise<void> {
    this.#closing.abort();
    await this.#http.close(graceMs);
  }

  #callOf(c: HttpContext, digest = ''): Call {
    if (this.#service === undefined) throw new Error('the server is open without a journal');
    const tenant = this.#tenants.tenantOf(c.env.incoming.headers);
    // Made when it is asked for: most requests wait for nothing that it could end.
    const signal = () => AbortSignal.any([this.#http.signalOf(c), this.#closing.signal]);
    return { service: this.#service, tenant, signal, digest };
  }

  /** The body's bytes count as held until `use` ends; so it only reads them. */
  async #body<T>(c: HttpContext, types: readonly string[], use: (body: Buffer) => T, most = MOST_BYTES): Promise<T> {
    const { incoming } = c.env;
    return this.#http.bodies.use(
      incoming,
      async (body, hold) => readBody(body, incoming.headers['content-encoding'], use, { hold, most }),
      types,
      most,
    );
  }

  #post<S extends z.ZodType>(
    method: 'POST' | 'PUT',
    path: string,
    schema: S,
    answer: (call: Call, body: z.output<S>, c: HttpContext) => Promise<object>,
    most = SMALL_BYTES,
  ): void {
    this.#http.app.on(method, `${ROOT}${path}`, async (c) => {
      const use = (bytes: Buffer) => [schema.parse(readJson(bytes)), digestOf(path, bytes)] as const;
      const [body, digest] = await this.#body(c, [JSON_TYPE], use, most);
      return this.#http.slots.hold(async () => c.json(await answer(this.#callOf(c, digest), body, c)));
    });
  }

  #get(path: string, answer: (call: Call, c: HttpContext) => Promise<object> | object): void {
    this.#http.app.get(`${ROOT}${path}`, async (c) => c.json(await answer(this.#callOf(c), c)));
  }

  #routeService(): void {
    const { app } = this.#http;
    // Compression costs more than it saves where the bytes never leave the machine.
    const flags = { proto_compress_fwdbwd: !LOOPBACK.has(this.#host), sample_use_retrieve_futures: false };
    app.post(`${ROOT}/client/config`, (c) => c.json(flags));
    const dynamic = { refresh_interval_sec: 300, sample_cancel_enabled: true, sample_cancel_max_batch_size: 64 };
    app.post(`${ROOT}/client/dynamic_config`, (c) => c.json(dynamic));
    app.post(`${ROOT}/telemetry`, (c) => c.json({ status: 'accepted' }));
    this.#get('/get_server_capabilities', ({ service }) => ({
      supported_models: service.bases.map(({ name, contextTokens }) => ({
        model_name: name,
        max_context_length: contextTokens,
        trainable: true,
        sampleable: true,
      })),
    }));
    this.#post('POST', '/create_session', bodies.createSessionBody, sessions.createSession);
    this.#post('POST', '/session_heartbeat', bodies.sessionBody, (call, body) =>
      sessions.heartbeat(call, body.session_id),
    );
    this.#post('POST', '/sessions/search', bodies.searchBody, sessions.searchSessions);
    this.#post('POST', '/sessions/:id/finish', bodies.finishBody, (call, body, c) =>
      sessions.finishSession(call, c.req.param('id') ?? '', body),
    );
    this.#get('/sessions', (call, c) => sessions.listSessions(call, pageOf(c.req.query())));
    this.#get('/sessions/:id', (call, c) => sessions.showSession(call, c.req.param('id') ?? ''));
  }

  #routeModels(): void {
    this.#post('POST', '/create_model', bodies.createModelBody, models.createModel);
    this.#post('POST', '/get_info', bodies.modelBody, (call, body) => models.getInfo(call, body.model_id));
    this.#post('POST', '/unload_model', bodies.modelBody, (call, body) => models.unloadModel(call, body.model_id));
    this.#post('POST', '/optim_step', bodies.optimStepBody, models.optimStep);
    this.#post('POST', '/load_weights', bodies.loadWeightsBody, models.loadWeights);
    this.#post('POST', '/save_weights', bodies.saveWeightsBody, checkpoints.saveWeights);
    this.#post('POST', '/save_weights_for_sampler', bodies.saveForSamplerBody, checkpoints.saveForSampler);
    this.#post('POST', '/create_sampling_session', bodies.createSamplingSessionBody, samplers.createSampler);
    this.#post('POST', '/join_sampling_session', bodies.samplingSessionBody, (call, body) =>
      samplers.joinSampler(call, body.sampling_session_id),
    );
    this.#post('POST', '/asample', bodies.sampleBody, samplers.sample, MOST_BYTES);
    this.#post('POST', '/weights_info', bodies.pathBody, (call, body) =>
      checkpoints.weightsInfo(call, body.tinker_path),
    );
    this.#post('POST', '/copy_weights', bodies.copyBody, checkpoints.copyWeights);
    this.#post('POST', '/cancel_future', bodies.cancelBody, (call, body) => futures.cancel(call, body.request_id));
    this.#post('POST', '/retrieve_futures', bodies.retrieveManyBody, futures.retrieveMany, LIST_BYTES);
    const forward = (call: Call, body: z.output<typeof bodies.forwardBody>) =>
      models.pass(call, body.model_id, (base) =>
        passOfJson(body.forward_input, base, {
          modelId: body.model_id,
          seq: Number(body.seq_id ?? NaN),
          forwardOnly: true,
        }),
      );
    this.#post('POST', '/forward', bodies.forwardBody, forward, MOST_BYTES);
    const { app } = this.#http;
    app.post(`${ROOT}/forward_backward`, (c) => this.#forwardBackward(c));
    app.post(`${ROOT}/retrieve_future`, (c) => this.#retrieve(c));
  }

  #routeReads(): void {
    const run = (c: HttpContext) => c.req.param('run') ?? '';
    const checkpoint = (c: HttpContext) => `${c.req.param('folder')}/${c.req.param('name')}`;
    this.#get('/samplers/:id', (call, c) => samplers.showSampler(call, c.req.param('id') ?? ''));
    this.#get('/training_runs', (call, c) => checkpoints.listRuns(call, pageOf(c.req.query())));
    this.#get(RUN, (call, c) => checkpoints.showRun(call, run(c)));
    this.#get(`${RUN}/checkpoints`, (call, c) => checkpoints.listOfRun(call, run(c)));
    this.#get('/checkpoints', (call, c) => checkpoints.listAll(call, pageOf(c.req.query())));
    this.#post('PUT', `${CHECKPOINT}/ttl`, bodies.ttlBody, (call, body, c) =>
      checkpoints.changeCheckpoint(call, run(c), checkpoint(c), { ttlSeconds: body.ttl_seconds ?? null }),
    );
    const { app } = this.#http;
    app.delete(`${ROOT}${CHECKPOINT}`, async (c) =>
      c.json(await checkpoints.deleteCheckpoint(this.#callOf(c), run(c), checkpoint(c))),
    );
    const publish = (isPublic: boolean) => async (c: HttpContext) =>
      c.json(await checkpoints.changeCheckpoint(this.#callOf(c), run(c), checkpoint(c), { public: isPublic }));
    app.post(`${ROOT}${CHECKPOINT}/publish`, publish(true));
    app.delete(`${ROOT}${CHECKPOINT}/publish`, publish(false));
  }

  async #forwardBackward(c: HttpContext): Promise<Response> {
    const isProtobuf = c.req.header('content-type')?.startsWith(PROTOBUF_TYPE) === true;
    const [body, digest] = await this.#body(c, [PROTOBUF_TYPE, JSON_TYPE], (bytes) => [
      isProtobuf ? decodePassRequest(bytes) : bodies.forwardBackwardBody.parse(readJson(bytes)),
      digestOf('/forward_backward', bytes),
    ]);
    const call = this.#callOf(c, digest);
    return this.#http.slots.hold(async () =>
      c.json(
        'modelId' in body
          ? await models.pass(call, body.modelId, () => body)
          : await models.pass(call, body.model_id, (base) =>
              passOfJson(body.forward_backward_input, base, {
                modelId: body.model_id,
                seq: Number(body.seq_id ?? NaN),
                forwardOnly: body.forward_only,
              }),
            ),
      ),
    );
  }

  async #retrieve(c: HttpContext): Promise<Response> {
    const body = await this.#body(c, [JSON_TYPE], (bytes) => bodies.retrieveBody.parse(readJson(bytes)), SMALL_BYTES);
    const wantsProtobuf = c.req.header('accept')?.includes(PROTOBUF_TYPE) === true;
    // Those who wait hold no slot: there may be as many as there are samples under way.
    const answer = await futures.retrieve(this.#callOf(c), body, wantsProtobuf, this.#holdMs);
    if ('json' in answer) return c.json(answer.json);
    return c.body(Uint8Array.from(answer.protobuf), 200, { 'content-type': PROTOBUF_TYPE });
  }
}
