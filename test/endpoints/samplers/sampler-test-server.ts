/**
 * A stand-in for vLLM 0.33 and SGLang 0.5.23: their routes, fields and refusals, as their packages have them; those of
 * vLLM as a real one answered (test/interop/samplers). It reads the checkpoints that it is given, and its tokens follow
 * from the bytes that are loaded: a test sees which weights sampled. Its model is none: an answer says nothing about a
 * policy.
 */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import path from 'node:path';

type Json = Readonly<Record<string, unknown>>;

class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Ids that these weights give after this prompt. 2 ends the answer. */
export const tokensOf = (weights: Buffer | string, prompt: readonly number[]): number[] => {
  const hash = createHash('sha256').update(weights).update(JSON.stringify(prompt)).digest();
  return [...hash.subarray(0, 4)].map((byte) => byte + 10).concat(2);
};

export const STARTED_WITH = 'the weights of the start';
/** The folder that the server was started with. */
const BASE = '/base';

export class SamplerTestServer {
  readonly kind: 'vllm' | 'sglang';
  readonly asked: string[] = [];
  /** Called before a request is answered: to wait, to throw away the connection (`false`), or to change something. */
  before: (path: string, body: Json) => Promise<boolean | void> | boolean | void = () => undefined;
  /** Spans of the next answer, instead of one span of the label. */
  spans: Array<[string, number, number]> | undefined;
  /** Status of each answer to a prompt. */
  refused: number | undefined;
  /** Fields of SGLang's next answers that are others, or missing. */
  meta: Json = {};
  label = 'default';
  weights: Buffer | string = STARTED_WITH;
  isPaused = false;
  /** vLLM without weights, after a reload that failed. A sample ends it. */
  isEmpty = false;
  isDead = false;
  /** A folder that vLLM cannot load leaves it so that it loads no other one. */
  isSpoilt = false;
  /** A connection is closed when a second request comes over it, as if it had been closed just before. */
  closesKept = false;
  readonly #used = new WeakSet<Socket>();
  maxAdapters = 4;
  readonly adapters = new Map<string, Buffer>();
  readonly #server: Server;
  #port = 0;

  constructor(kind: 'vllm' | 'sglang') {
    this.kind = kind;
    this.#server = createServer((request, response) => {
      void (async () => {
        if (this.closesKept && this.#used.has(request.socket)) return void request.socket.destroy();
        this.#used.add(request.socket);
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        const route = (request.url ?? '').slice(1);
        const body = chunks.length > 0 ? (JSON.parse(Buffer.concat(chunks).toString()) as Json) : {};
        this.asked.push(route);
        try {
          if ((await this.before(route, body)) === false) return void request.socket.destroy();
          if (this.refused !== undefined && /completions|generate/.test(route))
            throw new Refused(this.refused, 'The model `base` does not exist.');
          const answer = this.kind === 'vllm' ? this.#vllm(route, body) : this.#sglang(route, body);
          const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
          response.writeHead(200).end(text);
        } catch (error) {
          const status = error instanceof Refused ? error.status : 500;
          const { message } = error as Error;
          const content =
            this.kind === 'vllm'
              ? { error: { message, code: status, type: 'BadRequestError' } }
              : { success: false, message };
          response.writeHead(status).end(JSON.stringify(content));
        }
      })();
    });
  }

  static async start(kind: 'vllm' | 'sglang'): Promise<SamplerTestServer> {
    const server = new SamplerTestServer(kind);
    await server.listen();
    return server;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => void this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  get address(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** As after a kill: it has what it was started with. */
  restart(): void {
    this.label = 'default';
    this.weights = STARTED_WITH;
    this.isPaused = false;
    this.isEmpty = false;
    this.isDead = false;
    this.isSpoilt = false;
    this.adapters.clear();
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => void this.#server.close(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  count(route: string): number {
    return this.asked.filter((one) => one === route).length;
  }

  #reload(folder: string): void {
    this.isEmpty = true;
    try {
      if (this.isSpoilt) throw new Error('start (0) + length (384) exceeds dimension size (100).');
      this.weights = folder === BASE ? STARTED_WITH : readFileSync(path.join(folder, 'model.safetensors'));
    } catch (error) {
      const { message } = error as Error;
      throw new Refused(500, `Call to collective_rpc method failed: Worker failed with error '${message}'`);
    }
    this.isEmpty = false;
  }

  #adapter({ lora_name: name, lora_path: folder }: Json): string {
    if (this.kind === 'vllm' && !existsSync(String(folder)))
      throw new Refused(404, `Loading lora ${String(name)} failed: No adapter found for ${String(folder)}`);
    if (this.adapters.has(String(name))) throw new Refused(400, `adapter '${String(name)}' has already been loaded.`);
    if (this.adapters.size >= this.maxAdapters) throw new Refused(400, 'too many adapters are loaded');
    this.adapters.set(String(name), readFileSync(path.join(String(folder), 'adapter_model.safetensors')));
    return `Success: LoRA adapter '${String(name)}' added successfully.`;
  }

  #models(): Json {
    const base = { id: 'base', object: 'model', root: BASE, parent: null };
    const others = [...this.adapters.keys()].map((id) => ({ id, object: 'model', root: '/any', parent: 'base' }));
    return { object: 'list', data: [base, ...others] };
  }

  #spansOf(count: number): Array<[string, number, number]> {
    const { spans } = this;
    this.spans = undefined;
    return spans ?? [[this.label, 0, count]];
  }

  #vllm(route: string, body: Json): Json | string {
    if (this.isDead) throw new Refused(500, 'The server had an error while processing your request.');
    switch (route) {
      case 'v1/models':
        return this.#models();
      case 'v1/load_lora_adapter':
        return this.#adapter(body);
      case 'v1/unload_lora_adapter':
        if (!this.adapters.delete(String(body['lora_name']))) throw new Refused(404, 'cannot be found.');
        return 'Success: removed successfully.';
      case 'weight_info':
        return { weight_version: this.label };
      case 'update_weight_version':
        this.label = String(body['new_version']);
        return { success: true, new_version: this.label };
      case 'pause?mode=wait':
        this.isPaused = true;
        return { status: 'paused' };
      case 'resume':
        this.isPaused = false;
        return { status: 'resumed' };
      case 'is_paused':
        return { is_paused: this.isPaused };
      case 'collective_rpc': {
        const { weights_path: folder } = body['kwargs'] as { weights_path: string };
        this.#reload(folder);
        return { results: [null] };
      }
      case 'reset_prefix_cache':
        return { success: true };
      case 'v1/completions':
        return this.#completion(body);
      default:
        throw new Refused(404, 'Not Found');
    }
  }

  #completion(body: Json): Json {
    if (this.isPaused) throw new Refused(503, 'Generation is paused. Please retry after it resumes.');
    this.isDead = this.isEmpty;
    if (this.isDead) throw new Refused(500, 'The server had an error while processing your request.');
    const model = String(body['model']);
    const weights = model === 'base' ? this.weights : this.adapters.get(model);
    if (weights === undefined) throw new Refused(404, `The model \`${model}\` does not exist.`);
    const prompt = body['prompt'] as number[];
    const tokens = tokensOf(weights, prompt);
    const spans = this.#spansOf(tokens.length).map(([version, start, end]) => ({ version, start, end }));
    const choice = {
      finish_reason: 'stop',
      token_ids: tokens,
      prompt_token_ids: prompt,
      logprobs: { tokens: tokens.map((id) => `token_id:${id}`), token_logprobs: tokens.map(() => -0.5) },
      ...(body['return_weight_versions'] === true && { weight_versions: spans }),
    };
    return { model, choices: [choice], usage: { prompt_tokens: prompt.length } };
  }

  #sglang(route: string, body: Json): Json {
    switch (route) {
      case 'v1/models':
        return this.#models();
      case 'model_info':
        return { model_path: BASE, weight_version: this.label };
      case 'update_weights_from_disk':
        this.weights = readFileSync(path.join(String(body['model_path']), 'model.safetensors'));
        this.label = String(body['weight_version']);
        return { success: true, message: 'Succeeded.', num_paused_requests: 0 };
      case 'update_weight_version':
        this.label = String(body['new_version']);
        return { success: true, new_version: this.label };
      case 'load_lora_adapter':
        this.#adapter(body);
        return { success: true, error_message: null, loaded_adapters: {} };
      case 'unload_lora_adapter':
        this.adapters.delete(String(body['lora_name']));
        return { success: true };
      case 'generate': {
        const name = body['lora_path'] as string | undefined;
        const weights = name === undefined ? this.weights : this.adapters.get(name);
        if (weights === undefined) throw new Refused(400, `LoRA adapters are not loaded: ${name}`);
        const prompt = body['input_ids'] as number[];
        const tokens = tokensOf(weights, prompt);
        const spans = this.#spansOf(tokens.length);
        const meta = {
          prompt_tokens: prompt.length,
          finish_reason: { type: 'stop' },
          output_token_logprobs: tokens.map((id) => [-0.5, id, null]),
          weight_version: this.label,
          weight_versions: spans.map(([version, start, end]) => ({ version, start, end })),
          ...this.meta,
        };
        return { text: '', meta_info: meta };
      }
      default:
        throw new Refused(404, 'Not Found');
    }
  }
}
