/**
 * A thread that prepares long requests in order of arrival, so that the server's own thread can answer in the meantime.
 * If the caller of the running request leaves, the thread is stopped, so that the request does not delay later ones.
 */

import { Worker } from 'node:worker_threads';
import { type ErrorData, errorFrom } from '../../trainer/embedded/messages.ts';
import type { ResponseItem } from '../apis/responses-items.ts';
import { ApiError } from '../http/api-error.ts';
import type { Prepared, RequestKind } from './prepare-request.ts';

/** The model for which the thread makes prompts. */
export interface PromptSource {
  /** The policy's directory, for its tokenizer. */
  readonly dir: string;
  readonly name: string;
  readonly contextTokens: number;
}

export interface ToPromptThread {
  readonly kind: RequestKind;
  readonly body: Uint8Array;
  /** Items of the response that it continues. */
  readonly earlier?: readonly ResponseItem[] | undefined;
}
export type FromPromptThread = { readonly prepared: Prepared } | { readonly error: ErrorData };

interface Job extends ToPromptThread {
  readonly resolve: (prepared: Prepared) => void;
  readonly reject: (error: unknown) => void;
}

/** Size of the thread's heap. A request that needs more is refused. */
const HEAP_MIB = 1024;

/** Messages between threads keep an error's fields, but not its class. */
function readError(data: ErrorData): Error {
  const error = errorFrom(data) as Error & { status: number; param: string | null; code: string | null };
  if (data.name !== 'ApiError') return error;
  return new ApiError(error.status, error.message, { param: error.param ?? undefined, code: error.code ?? undefined });
}

export class PromptThread {
  readonly #source: PromptSource;
  readonly #waiting: Job[] = [];
  #running: Job | undefined;
  #worker: Worker | undefined;

  constructor(source: PromptSource) {
    this.#source = source;
  }

  /** Errors: `ApiError`; the signal's reason. */
  prepare({ kind, body, earlier }: ToPromptThread, signal: AbortSignal): Promise<Prepared> {
    return new Promise((resolve, reject) => {
      const job = { kind, body, earlier, resolve, reject };
      const drop = () => this.#drop(job, signal.reason);
      this.#waiting.push(job);
      signal.addEventListener('abort', drop, { once: true });
      if (signal.aborted) drop();
      this.#next();
    });
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #next(): void {
    if (this.#running !== undefined) return;
    this.#running = this.#waiting.shift();
    if (this.#running === undefined) return;
    const { kind, body, earlier } = this.#running;
    this.#worker ??= this.#start();
    this.#worker.postMessage({ kind, body, earlier });
  }

  #start(): Worker {
    // In the built package, both files are JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const worker = new Worker(new URL(`./prompt-worker.${extension}`, import.meta.url), {
      workerData: this.#source,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
    });
    worker.unref();
    worker.on('message', (answer: FromPromptThread) => {
      // What an ended thread had said is delivered at its end, and belongs to the request that was dropped.
      if (worker !== this.#worker) return;
      const job = this.#finish();
      if ('prepared' in answer) job?.resolve(answer.prepared);
      else job?.reject(readError(answer.error));
    });
    worker.on('error', (error: NodeJS.ErrnoException) => {
      const isLarge = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.#lose(worker, isLarge ? new ApiError(413, 'the request needs too much memory to prepare') : error);
    });
    worker.on('exit', (code) => this.#lose(worker, new Error(`the thread for prompts ended with exit code ${code}`)));
    return worker;
  }

  #finish(): Job | undefined {
    const job = this.#running;
    this.#running = undefined;
    this.#next();
    return job;
  }

  #lose(worker: Worker, error: unknown): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    this.#finish()?.reject(error);
  }

  #drop(job: Job, reason: unknown): void {
    job.reject(reason);
    if (this.#running === job) {
      const worker = this.#worker;
      this.#worker = undefined;
      void worker?.terminate();
      this.#finish();
    } else if (this.#waiting.includes(job)) {
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
    }
  }
}
