/**
 * An engine behind the protocols of vLLM, SGLang and llama.cpp, as their documentation has them: ids in, ids and
 * log-probabilities out. OpenAI's paths, and vLLM's fields in them, are those of `longhaul serve` itself.
 */

import type { PolicyTokenizer } from '../../../activities/generate/sample-ids.ts';
import type { Engine } from '../../../trainer/engine.ts';
import type { GenerateResult } from '../../../trainer/generate-request.ts';
import { ApiError } from '../../../servers/http/api-error.ts';
import { asApiError, errorBody } from '../../../servers/openai/api-error.ts';
import { listModels, replyTo } from '../../../servers/openai/api.ts';
import { prepareRequest } from '../../../servers/openai/prepare-request.ts';
import type { Answer, Asked, Handler } from './http-server.ts';

export interface Served {
  readonly engine: Engine;
  readonly tokenizer: PolicyTokenizer;
  readonly policy: { readonly dir: string; readonly version: number };
  readonly model: string;
  readonly owner: 'vllm' | 'sglang' | 'llamacpp' | 'somebody' | 'longhaul';
  readonly contextTokens?: number;
  /** What the server makes of a prompt before it reads it. */
  readonly retokenise?: (ids: readonly number[]) => number[];
}

interface Wanted {
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  readonly fields: Readonly<Record<string, unknown>>;
}

const number = (value: unknown, fallback: number) => (typeof value === 'number' ? value : fallback);

class ServedEngine {
  readonly #served: Served;

  constructor(served: Served) {
    this.#served = served;
  }

  async answer({ path, body }: Asked, signal: AbortSignal): Promise<Answer> {
    const { owner } = this.#served;
    if (path === '/generate' && owner === 'sglang') return this.#sglang(body, signal);
    if (path === '/completion' && owner === 'llamacpp') return this.#llamaCpp(body, signal);
    if (path === '/v1/completions' && !['vllm', 'longhaul'].includes(owner))
      return { status: 404, body: { detail: 'Not Found' } };
    return this.#openAi(path, body, signal);
  }

  async #openAi(path: string, body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    const { engine, policy, tokenizer, model: name, owner, contextTokens, retokenise } = this.#served;
    const model = {
      name,
      engine,
      policy,
      tokenizer: { ...tokenizer, longestToken: 100, lastToken: Infinity, bytesOf: () => [] },
      contextTokens: contextTokens ?? 1_000_000,
    };
    const seen =
      retokenise && Array.isArray(body['prompt']) ? { ...body, prompt: retokenise(body['prompt'] as number[]) } : body;
    // Not every server tells how much it holds.
    if (path === '/v1/models' && contextTokens === undefined)
      return { body: { object: 'list', data: [{ id: name, object: 'model', owned_by: owner }] } };
    if (path === '/v1/models') return { body: listModels(model, owner) };
    try {
      const isChat = path === '/v1/chat/completions';
      if (!isChat && path !== '/v1/completions') throw new ApiError(404, `there is no ${path} here`);
      const written = Buffer.from(JSON.stringify(seen));
      const prepared = prepareRequest(isChat ? 'chat' : 'completion', written, model);
      if (prepared.kind === 'continues') throw new TypeError('Completions continue nothing');
      const reply = replyTo(prepared, model, signal);
      if (!('body' in reply)) throw new TypeError('Nobody asks this server for a stream');
      return { body: await reply.body() };
    } catch (error) {
      if (signal.aborted) throw error;
      const refused = asApiError(error);
      return { status: refused.status, body: errorBody(refused) };
    }
  }

  async #sample(
    { prompt, maxTokens, fields }: Wanted,
    signal: AbortSignal,
  ): Promise<GenerateResult & { seen: readonly number[] }> {
    const { engine, policy, tokenizer, retokenise = (ids) => [...ids] } = this.#served;
    const seen = retokenise(prompt);
    const sampling = {
      temperature: number(fields['temperature'], 1),
      topP: number(fields['top_p'], 1),
      topK: Math.max(0, number(fields['top_k'], 0)),
      maxTokens,
    };
    const noiseKey = `seed ${String(fields['seed'])}`;
    return {
      ...(await engine.generate(
        { policy, cacheKey: noiseKey, tokens: seen, sampling, stopTokenIds: tokenizer.stopTokenIds, noiseKey },
        signal,
      )),
      seen,
    };
  }

  async #sglang(body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    const fields = body['sampling_params'] as Record<string, unknown>;
    const wanted = { prompt: body['input_ids'] as number[], maxTokens: number(fields['max_new_tokens'], 16), fields };
    const limit = this.#served.contextTokens ?? Number.POSITIVE_INFINITY;
    if (wanted.prompt.length >= limit) {
      const message = `The input (${wanted.prompt.length} tokens) is longer than the model's context length (${limit} tokens).`;
      return { status: 400, body: { error: { message, type: 'BadRequest', code: 400 } } };
    }
    const { tokens, logprobs, finishReason, seen } = await this.#sample(wanted, signal);
    const output = tokens.map((id, i) => [logprobs[i], id, null]);
    const meta_info = {
      prompt_tokens: seen.length,
      finish_reason: { type: finishReason },
      output_token_logprobs: output,
    };
    return { body: { text: '', output_ids: tokens, meta_info } };
  }

  async #llamaCpp(body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    const wanted = { prompt: body['prompt'] as number[], maxTokens: number(body['n_predict'], 16), fields: body };
    const limit = this.#served.contextTokens ?? Number.POSITIVE_INFINITY;
    if (wanted.prompt.length >= limit) {
      const message = `request (${wanted.prompt.length} tokens) exceeds the available context size (${limit} tokens), try increasing it`;
      return {
        status: 400,
        body: {
          error: {
            code: 400,
            message,
            type: 'exceed_context_size_error',
            n_prompt_tokens: wanted.prompt.length,
            n_ctx: limit,
          },
        },
      };
    }
    const { tokens, logprobs, finishReason, seen } = await this.#sample(wanted, signal);
    const completion_probabilities = tokens.map((id, i) => ({ id, logprob: logprobs[i], top_logprobs: [] }));
    const stop_type = finishReason === 'stop' ? 'eos' : 'limit';
    return {
      body: {
        content: '',
        tokens,
        tokens_evaluated: seen.length,
        truncated: false,
        stop_type,
        completion_probabilities,
      },
    };
  }
}

export function serveEngine(served: Served): Handler {
  const server = new ServedEngine(served);
  return (asked, signal) => server.answer(asked, signal);
}
