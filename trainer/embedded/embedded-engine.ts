/** The engine in this process. TensorFlow has a thread of its own, so that the main thread never waits for an op. */

import path from 'node:path';
import { createInterface } from 'node:readline';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { findEngine, NotSetUp } from '#setup/engine/engine-package.mjs';
import type { PoolEngine } from '../engine.ts';
import type { PlannedUpdate, PlanRequest, RoundRequest, ShardRequest, UpdateRequest } from '../update-request.ts';
import type { GenerateRequest, GenerateResult } from '../generate-request.ts';
import type { EngineKinds } from '../../protocol/engine.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import {
  type EngineStats,
  type FromThread,
  type ThreadOptions,
  type ToThread,
  type TrainingWork,
  errorFrom,
} from './messages.ts';
import { buffersOf, packData } from './packed-data.ts';
import type { AdapterTrainer } from '../tenants/definition.ts';
import { adapterTrainer } from '../tenants/adapter-calls.ts';
import { prepareTensorflowEnvironment } from '../tensorflow-environment.ts';

export type { EngineStats } from './messages.ts';

export interface EmbeddedEngineOptions extends ThreadOptions {
  /** The thread's module; tests may replace it. */
  readonly thread?: URL;
  /** Receives the thread's output line by line; default: this process prints it. */
  readonly onOutput?: (line: string) => void;
}

export interface EmbeddedEngine extends PoolEngine {
  /** The kinds of its products. */
  describe(): Promise<EngineKinds>;
  /** Trains adapters beside the model in `baseDir`, which the first call reads. Training and samples take turns. */
  tenants(baseDir: string): AdapterTrainer;
  /** The thread's statistics so far. */
  stats(): Promise<EngineStats>;
}

/** The engine's thread ended before the request was done. Only a new engine can serve requests. */
export class EngineLost extends Error {
  override readonly name = 'EngineLost';
  /** How the thread ended: its exit code, or `undefined` when an error ended it (then `cause`). */
  readonly exitCode: number | undefined;
  constructor(message: string, exitCode: number | undefined, cause?: unknown) {
    super(message, { cause });
    this.exitCode = exitCode;
  }
}

interface Pending {
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
  readonly onProgress?: ((fraction: number) => void) | undefined;
  readonly onCost?: ((cost: GenerateCost) => void) | undefined;
}

/** `close` terminates the thread after so long, even in the middle of an update. */
const closeTimeoutMs = 10_000;

class ThreadEngine implements EmbeddedEngine {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  readonly #exited: Promise<void>;
  readonly #ready = Promise.withResolvers<void>();
  #lost: EngineLost | undefined;
  #next = 0;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.on('message', (message: FromThread) => this.#receive(message));
    worker.on('error', (error) =>
      this.#lose(new EngineLost(`the engine's thread failed: ${String(error)}`, undefined, error)),
    );
    this.#exited = new Promise((resolve) => {
      worker.on('exit', (code) => {
        this.#lose(new EngineLost(`the engine's thread ended with exit code ${code}`, code));
        resolve();
      });
    });
  }

  ready(): Promise<void> {
    return this.#ready.promise;
  }

  generate(
    request: GenerateRequest,
    signal?: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult> {
    const id = this.#next++;
    return this.#until(signal, id, this.#ask<GenerateResult>({ kind: 'generate', id, request }, { onCost }));
  }

  /** At the signal the request is rejected at once, and the thread stops it when it can. */
  #until<T>(signal: AbortSignal | undefined, id: number, answer: Promise<T>): Promise<T> {
    if (signal === undefined) return answer;
    const abort = (): void => {
      this.#pending.get(id)?.reject(signal.reason);
      if (this.#pending.delete(id)) this.#send({ kind: 'abort', id });
    };
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    return answer.finally(() => signal.removeEventListener('abort', abort));
  }

  // Sends the update before it awaits anything, so that later requests come after it.
  async update(request: UpdateRequest, onProgress?: (fraction: number) => void): Promise<UpdateMetrics> {
    const data = packData(request.data);
    return this.#train({ what: 'update', request: { ...request, data } }, onProgress, buffersOf(data));
  }

  async planUpdate(request: PlanRequest): Promise<PlannedUpdate> {
    const data = packData(request.data);
    return this.#train({ what: 'planUpdate', request: { ...request, data } }, undefined, buffersOf(data));
  }

  forwardBackward(request: ShardRequest, onProgress?: (fraction: number) => void): Promise<void> {
    return this.#train({ what: 'forwardBackward', request }, onProgress);
  }

  optimStep(request: RoundRequest, onProgress?: (fraction: number) => void): Promise<void> {
    return this.#train({ what: 'optimStep', request }, onProgress);
  }

  tenants(baseDir: string): AdapterTrainer {
    const base = path.resolve(baseDir);
    return adapterTrainer((call, signal) => {
      const id = this.#next++;
      const work: TrainingWork = { what: 'tenant', base, call };
      return this.#until(signal, id, this.#ask({ kind: 'train', id, work }));
    });
  }

  describe(): Promise<EngineKinds> {
    return this.#ask({ kind: 'describe', id: this.#next++ });
  }

  stats(): Promise<EngineStats> {
    return this.#ask({ kind: 'stats', id: this.#next++ });
  }

  async close(): Promise<void> {
    this.#lose(new EngineLost('the engine was closed', undefined));
    this.#send({ kind: 'close' });
    const timer = setTimeout(() => void this.#worker.terminate(), closeTimeoutMs);
    await this.#exited;
    clearTimeout(timer);
  }

  #train<T>(
    work: TrainingWork,
    onProgress?: (fraction: number) => void,
    given: readonly ArrayBuffer[] = [],
  ): Promise<T> {
    return this.#ask({ kind: 'train', id: this.#next++, work }, { onProgress }, given);
  }

  /** Moves the buffers `given` to the thread. */
  #ask<T>(
    message: Extract<ToThread, { id: number }>,
    meanwhile: Pick<Pending, 'onProgress' | 'onCost'> = {},
    given: readonly ArrayBuffer[] = [],
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) {
        reject(this.#lost);
        return;
      }
      this.#pending.set(message.id, { resolve, reject, ...meanwhile });
      this.#send(message, given);
    });
  }

  #send(message: ToThread, given: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, given);
  }

  #receive(message: FromThread): void {
    if (message.kind === 'ready') {
      this.#ready.resolve();
      return;
    }
    const pending = this.#pending.get(message.id);
    if (message.kind === 'progress') {
      pending?.onProgress?.(message.fraction);
      return;
    }
    if (message.kind === 'cost') {
      pending?.onCost?.(message.cost);
      return;
    }
    this.#pending.delete(message.id);
    if (message.kind === 'done') pending?.resolve(message.result as never);
    else pending?.reject(errorFrom(message.error));
  }

  #lose(lost: EngineLost): void {
    this.#lost ??= lost;
    this.#ready.reject(this.#lost);
    for (const { reject } of this.#pending.values()) reject(this.#lost);
    this.#pending.clear();
  }
}

function startThread(thread: URL, workerData: ThreadOptions, onOutput?: (line: string) => void): Worker {
  const isRead = onOutput !== undefined;
  const worker = new Worker(thread, { workerData, env: SHARE_ENV, stdout: isRead, stderr: isRead });
  if (isRead)
    for (const input of [worker.stdout, worker.stderr]) createInterface({ input }).on('line', (line) => onOutput(line));
  return worker;
}

/**
 * Starts the engine's thread and returns when TensorFlow is loaded. Errors: `NotSetUp`; `EngineLost`, also of all open
 * and later requests once the thread has ended. A request's error has the `name` and fields of its class in the thread.
 */
export async function createEmbeddedEngine(options: EmbeddedEngineOptions = {}): Promise<EmbeddedEngine> {
  // In a build, this file and the thread's module are JavaScript.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const { thread = new URL(`./engine-worker.${extension}`, import.meta.url), onOutput, ...workerData } = options;
  if (findEngine() === undefined) throw new NotSetUp('the engine');
  prepareTensorflowEnvironment();
  const engine = new ThreadEngine(startThread(thread, workerData, onOutput));
  await engine.ready();
  return engine;
}
