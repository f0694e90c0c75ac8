/**
 * One Tinker server as this process uses it: a session for samplers, a session for each training, and what was learned
 * about the server's dialect. Samplers are kept; one that is lost is made anew once.
 */

import { EndpointError } from '../endpoint-error.ts';
import { parseTinkerUri, type TinkerPolicy } from '../../protocol/tinker-uri.ts';
import type { TinkerSampleResult } from '../../protocol/tinker.ts';
import { type Answer, jsonOf, TinkerRefused, TinkerRequests } from './requests.ts';
import { type Dialect, type TinkerModel, TinkerSampler, TinkerSession } from './session.ts';
import { decodeSampleAnswer } from './wire/sample-answer.ts';

/** Models that are loaded for sampling at once, where a server samples only loaded ones. */
const MOST_LOADED = 3;
/** What servers say of a model or a session that they no longer have: SkyRL's and Longhaul's words. */
const LOST = /not loaded|not found|unknown (model|session|sampler)|no longer|has ended|expired/i;

const isLost = (error: unknown): error is TinkerRefused =>
  error instanceof TinkerRefused && (error.status === 404 || error.status === 410 || LOST.test(error.message));

/** The training state that was saved under the same name. */
export const stateOf = (path: string): string => path.replace('/sampler_weights/', '/weights/');

interface Held {
  readonly sampler: TinkerSampler;
  /** Loaded for this sampler alone. */
  readonly model?: TinkerModel;
}

function sampleFromJson(value: Readonly<Record<string, unknown>>): TinkerSampleResult {
  const sequences = Array.isArray(value['sequences']) ? (value['sequences'] as readonly unknown[]) : [];
  return {
    sequences: sequences.map((one, i) => {
      const { tokens, logprobs, stop_reason: finish } = (one ?? {}) as Record<string, unknown>;
      if (!Array.isArray(tokens) || !Array.isArray(logprobs) || (finish !== 'stop' && finish !== 'length'))
        throw new EndpointError('protocol', `sequences[${i}] lacks tokens, logprobs or stop_reason`);
      return { tokens: Int32Array.from(tokens, Number), logprobs: Float32Array.from(logprobs, Number), finish };
    }),
  };
}

export const sampleOf = (answer: Answer): TinkerSampleResult =>
  answer.isProtobuf ? decodeSampleAnswer(answer.bytes) : sampleFromJson(jsonOf(answer));

export interface ServedModel {
  readonly name: string;
  readonly contextTokens?: number;
}

export class TinkerConnection {
  readonly requests: TinkerRequests;
  readonly dialect: Dialect = {};
  #session: Promise<TinkerSession> | undefined;
  #served: Promise<readonly ServedModel[]> | undefined;
  /** By URI, the one used last at the end. */
  readonly #held = new Map<string, Promise<Held>>();

  constructor({ baseUrl, apiKeyEnv }: TinkerPolicy, env: NodeJS.ProcessEnv) {
    this.requests = new TinkerRequests({ baseUrl, ...(apiKeyEnv !== undefined && { apiKeyEnv }) }, env);
  }

  /** A session for training: its owner closes it. */
  openSession(signal: AbortSignal): Promise<TinkerSession> {
    return TinkerSession.open(this.requests, this.dialect, signal);
  }

  /** What the server has. Asked once, unless it fails. */
  served(signal: AbortSignal): Promise<readonly ServedModel[]> {
    this.#served ??= this.#askServed(signal).catch((error: unknown) => {
      this.#served = undefined;
      throw error;
    });
    return this.#served;
  }

  async #askServed(signal: AbortSignal): Promise<readonly ServedModel[]> {
    const { supported_models: models } = await this.requests.json('get_server_capabilities', undefined, signal);
    return (Array.isArray(models) ? (models as readonly unknown[]) : []).flatMap((one) => {
      const { model_name: name, max_context_length: context } = (one ?? {}) as Record<string, unknown>;
      if (typeof name !== 'string') return [];
      return [{ name, ...(Number.isSafeInteger(context) && Number(context) > 0 && { contextTokens: Number(context) }) }];
    });
  }

  /** The base model of a checkpoint. SkyRL's server knows only training states by their names. */
  async baseOf(path: string, signal: AbortSignal): Promise<string | undefined> {
    const ask = async (tinkerPath: string) => {
      const { base_model: base } = await this.requests.json('weights_info', { tinker_path: tinkerPath }, signal);
      return typeof base === 'string' ? base : undefined;
    };
    return ask(path).catch((error: unknown) => {
      if (!(error instanceof TinkerRefused) || !path.includes('/sampler_weights/')) throw error;
      return ask(stateOf(path));
    });
  }

  async sample(
    uri: string,
    tokens: readonly number[],
    parameters: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<TinkerSampleResult> {
    for (let tries = 1; ; tries += 1) {
      const held = this.#sampler(uri, signal);
      try {
        const { sampler } = await held;
        return sampleOf(await sampler.sample(tokens, parameters, signal));
      } catch (error) {
        if (tries > 2 || !isLost(error)) throw error;
        await this.#lost(uri, held, error);
      }
    }
  }

  /** After a restart of the server its sessions may be gone; after a lost model only that one. */
  async #lost(uri: string, held: Promise<Held>, { message }: TinkerRefused): Promise<void> {
    if (this.#held.get(uri) !== held) return;
    this.#held.delete(uri);
    // The server samples no checkpoint whose model is not loaded: it is loaded from its training state from now on.
    if (/not loaded/i.test(message) && parseTinkerUri(uri).path !== undefined) this.dialect.samplesLoadedModels = true;
    const old = this.#session;
    this.#session = undefined;
    // Samplers of the session go with it.
    const all = [...this.#held.values()];
    this.#held.clear();
    for (const one of all) void one.then(({ model }) => model?.unload()).catch(() => undefined);
    await old?.then((session) => session.close()).catch(() => undefined);
  }

  #sampler(uri: string, signal: AbortSignal): Promise<Held> {
    const known = this.#held.get(uri);
    if (known !== undefined) {
      this.#held.delete(uri);
      this.#held.set(uri, known);
      return known;
    }
    const made = this.#makeSampler(uri, signal);
    this.#held.set(uri, made);
    made.catch(() => {
      if (this.#held.get(uri) === made) this.#held.delete(uri);
    });
    return made;
  }

  async #makeSampler(uri: string, signal: AbortSignal): Promise<Held> {
    this.#session ??= this.openSession(signal);
    const session = await this.#session.catch((error: unknown) => {
      this.#session = undefined;
      throw error;
    });
    const { path, model: base } = parseTinkerUri(uri);
    if (path === undefined) return { sampler: await session.createSampler({ base_model: base }, signal) };
    if (this.dialect.samplesLoadedModels !== true)
      return { sampler: await session.createSampler({ model_path: path }, signal) };
    await this.#makeRoom(uri);
    const model = await session.loadModel(stateOf(path), base, false, signal);
    const loaded = await model.save('save_weights_for_sampler', path.slice(path.lastIndexOf('/') + 1), signal);
    return { model, sampler: await session.createSampler({ model_path: loaded }, signal) };
  }

  async #makeRoom(uri: string): Promise<void> {
    const loaded = [...this.#held].filter(([other]) => other !== uri && parseTinkerUri(other).path !== undefined);
    for (const [other, held] of loaded.slice(0, Math.max(0, loaded.length + 1 - MOST_LOADED))) {
      this.#held.delete(other);
      const { model } = await held.catch((): Partial<Held> => ({}));
      await model?.unload();
    }
  }
}
