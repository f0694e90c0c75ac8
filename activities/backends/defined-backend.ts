/** A backend that a user's module defines. Its policies and states are known by their URIs alone. */

import { randomBytes } from 'node:crypto';
import { importStored } from '../../modules/import-bundle.ts';
import type { Store } from '../../store/store.ts';
import '../../endpoints/samplers/backend.ts';
import '../../endpoints/tinker/backend.ts';
import { BackendCalls } from '../../trainer/backends/backend-calls.ts';
import type { BackendDefinition, PolicyDescription } from '../../trainer/backends/definition.ts';
import { backendOfUri } from '../../trainer/backends/registry.ts';
import { updateByBackend } from '../../trainer/backends/update-by-backend.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { PolicyTokenizer } from '../generate/sample-ids.ts';
import type { TrainingData } from '../update/training-data.ts';
import { nameOfAttempt } from '../update/update-input.ts';
import { learningOf, nothingLearned, teaches } from '../update/update-request.ts';
import type { Backend, Backends, UpdateContext, UpdateMade } from './backend.ts';

/** Reads a tokenizer's directory. */
export type ReadTokenizer = (dir: string) => Promise<PolicyTokenizer>;

const never = new AbortController().signal;
/** Described policies that a process remembers. */
const MOST_DESCRIBED = 256;

class DefinedBackend implements Backend {
  readonly #calls: BackendCalls;
  readonly #readTokenizer: ReadTokenizer;
  readonly #described = new Map<string, Promise<PolicyDescription>>();

  constructor(definition: BackendDefinition, readTokenizer: ReadTokenizer) {
    this.#calls = new BackendCalls(definition);
    this.#readTokenizer = readTokenizer;
  }

  async digestOf(uri: string): Promise<string> {
    return (await this.#describe(uri)).digest;
  }

  async tokenizerOf(uri: string): Promise<PolicyTokenizer> {
    return this.#readTokenizer(await resolveModel((await this.#describe(uri)).tokenizer));
  }

  get takesStop(): boolean {
    return this.#calls.definition.sampling.includes('stop');
  }

  async contextOf(): Promise<number | undefined> {
    return this.#calls.definition.maxContext ?? undefined;
  }

  hasPolicy(): boolean {
    return true;
  }

  async sample({ policy: { uri }, rollout, ...call }: Parameters<Backend['sample']>[0], signal: AbortSignal) {
    const { vocabulary } = await this.#describe(uri);
    const { tokens, sampling, stopTokenIds, noiseKey } = call;
    return this.#calls.sample({ uri, rollout, tokens, sampling, stopTokenIds, noiseKey }, vocabulary, signal);
  }

  async update(input: UpdateInput, data: TrainingData, context: UpdateContext): Promise<UpdateMade> {
    const { store, signal, progress } = context;
    const { policy: from, lora } = input;
    const { algorithm, reference } = await learningOf(input, store);
    const { learningRate } = algorithm;
    const toVersion = from.version + 1;
    if (!teaches(data))
      return {
        policy: { ...from, version: toVersion },
        sha256: null,
        metrics: nothingLearned(algorithm),
        learningRate,
      };
    const name = nameOfAttempt(input, randomBytes(6).toString('hex'));
    const update = { from, toVersion, data: data.data, algorithm, name };
    const asked = { ...update, ...(reference !== undefined && { reference }), ...(lora && { lora }) };
    return { ...(await updateByBackend(this.#calls, asked, signal, progress)), learningRate };
  }

  /** Each attempt saves under a name of its own: no other one can take its place. */
  async checkRecorded(): Promise<void> {}

  /** A saved policy never changes: it is described once. */
  #describe(uri: string): Promise<PolicyDescription> {
    const known = this.#described.get(uri);
    if (known !== undefined) return known;
    const [oldest] = this.#described.keys();
    if (this.#described.size >= MOST_DESCRIBED && oldest !== undefined) this.#described.delete(oldest);
    const made = this.#calls.describe(uri, never);
    this.#described.set(uri, made);
    made.catch(() => this.#described.delete(uri));
    return made;
  }
}

/** The backends of a worker: the embedded one, and those that users' modules define. */
export class WorkerBackends implements Backends {
  readonly #embedded: Backend;
  readonly #store: Store;
  readonly #readTokenizer: ReadTokenizer;
  readonly #defined = new Map<BackendDefinition, Backend>();
  /** Read from the store once, and not for each turn. */
  readonly #imported = new Set<ObjectRef>();

  constructor(embedded: Backend, store: Store, readTokenizer: ReadTokenizer) {
    this.#embedded = embedded;
    this.#store = store;
    this.#readTokenizer = readTokenizer;
  }

  async of(...[uri, modulesOf]: Parameters<Backends['of']>): Promise<Backend> {
    if (uri.startsWith('file:')) return this.#embedded;
    const modules = await modulesOf();
    if (modules !== undefined && !this.#imported.has(modules)) {
      await importStored(modules, this.#store);
      this.#imported.add(modules);
    }
    const definition = backendOfUri(uri, modules);
    if (definition === undefined) return this.#embedded;
    const known = this.#defined.get(definition) ?? new DefinedBackend(definition, this.#readTokenizer);
    this.#defined.set(definition, known);
    return known;
  }
}
