/**
 * An engine behind the protocols of vLLM, SGLang and llama.cpp, as their documentation has them: ids in, ids and
 * log-probabilities out; and behind OpenAI's chat. It stands for servers that no package registry has.
 */

import type { PolicyTokenizer } from '../../../activities/generate.ts';
import type { Message, ToolSchema } from '../../../agents/message.ts';
import { parseToolCalls, toolCallFormatOf } from '../../../agents/parse-tool-calls.ts';
import { renderPrompt } from '../../../agents/render-conversation.ts';
import type { Engine, GenerateResult } from '../../../trainer/engine.ts';
import type { Answer, Asked, Handler } from './http-server.ts';

export interface Served {
  readonly engine: Engine;
  readonly tokenizer: PolicyTokenizer;
  readonly policy: { readonly dir: string; readonly version: number };
  readonly model: string;
  readonly owner: 'vllm' | 'sglang' | 'llamacpp' | 'somebody';
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
const refusal = (status: number, message: string, code: string): Answer => ({ status, body: { error: { message, type: 'BadRequestError', code } } });

class ServedEngine {
  readonly #served: Served;

  constructor(served: Served) {
    this.#served = served;
  }

  async answer({ path, body }: Asked, signal: AbortSignal): Promise<Answer> {
    const { owner, model, contextTokens } = this.#served;
    if (path === '/v1/models') {
      const size = contextTokens === undefined ? {} : { max_model_len: contextTokens };
      return { body: { object: 'list', data: [{ id: model, object: 'model', owned_by: owner, ...size }] } };
    }
    if (path.startsWith('/v1/') && body['model'] !== model) {
      return refusal(404, `The model ${JSON.stringify(body['model'])} does not exist.`, 'model_not_found');
    }
    if (path === '/v1/completions' && owner === 'vllm') return this.#vllm(body, signal);
    if (path === '/generate' && owner === 'sglang') return this.#sglang(body, signal);
    if (path === '/completion' && owner === 'llamacpp') return this.#llamaCpp(body, signal);
    if (path === '/v1/chat/completions') return this.#chat(body, signal);
    return { status: 404, body: { detail: 'Not Found' } };
  }

  async #sample({ prompt, maxTokens, fields }: Wanted, signal: AbortSignal): Promise<GenerateResult & { seen: readonly number[] }> {
    const { engine, policy, tokenizer, retokenise = (ids) => [...ids] } = this.#served;
    const seen = retokenise(prompt);
    const sampling = { temperature: number(fields['temperature'], 1), topP: number(fields['top_p'], 1), topK: Math.max(0, number(fields['top_k'], 0)), maxTokens };
    const noiseKey = `seed ${String(fields['seed'])}`;
    return { ...(await engine.generate({ policy, cacheKey: noiseKey, tokens: seen, sampling, stopTokenIds: tokenizer.stopTokenIds, noiseKey }, signal)), seen };
  }

  #overflow({ prompt, maxTokens }: Wanted): Answer | undefined {
    const limit = this.#served.contextTokens ?? Number.POSITIVE_INFINITY;
    if (prompt.length + maxTokens <= limit) return undefined;
    const message = `This model's maximum context length is ${limit} tokens. However, you requested ${prompt.length + maxTokens} tokens (${prompt.length} in the messages, ${maxTokens} in the completion).`;
    return { status: 400, body: { error: { message, type: 'BadRequestError', param: null, code: 400 } } };
  }

  async #vllm(body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    const wanted = { prompt: body['prompt'] as number[], maxTokens: number(body['max_tokens'], 16), fields: body };
    const full = this.#overflow(wanted);
    if (full) return full;
    const { tokens, logprobs, finishReason, seen } = await this.#sample(wanted, signal);
    const said = body['logprobs'] === undefined ? null : { tokens: tokens.map((id) => `token_id:${id}`), token_logprobs: logprobs };
    const ids = body['return_token_ids'] === true ? { token_ids: tokens, prompt_token_ids: seen } : {};
    const choice = { index: 0, text: this.#served.tokenizer.decode(tokens), finish_reason: finishReason, logprobs: said, ...ids };
    return { body: { object: 'text_completion', choices: [choice], usage: { prompt_tokens: seen.length, completion_tokens: tokens.length } } };
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
    const meta_info = { prompt_tokens: seen.length, finish_reason: { type: finishReason }, output_token_logprobs: output };
    return { body: { text: '', output_ids: tokens, meta_info } };
  }

  async #llamaCpp(body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    const wanted = { prompt: body['prompt'] as number[], maxTokens: number(body['n_predict'], 16), fields: body };
    const limit = this.#served.contextTokens ?? Number.POSITIVE_INFINITY;
    if (wanted.prompt.length >= limit) {
      const message = `request (${wanted.prompt.length} tokens) exceeds the available context size (${limit} tokens), try increasing it`;
      return { status: 400, body: { error: { code: 400, message, type: 'exceed_context_size_error', n_prompt_tokens: wanted.prompt.length, n_ctx: limit } } };
    }
    const { tokens, logprobs, finishReason, seen } = await this.#sample(wanted, signal);
    const completion_probabilities = tokens.map((id, i) => ({ id, logprob: logprobs[i], top_logprobs: [] }));
    const stop_type = finishReason === 'stop' ? 'eos' : 'limit';
    return { body: { content: '', tokens, tokens_evaluated: seen.length, truncated: false, stop_type, completion_probabilities } };
  }

  async #chat(body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    const { tokenizer } = this.#served;
    const messages = (body['messages'] as Array<Record<string, unknown>>).map(templated);
    const prompt = renderPrompt(tokenizer, messages, (body['tools'] ?? []) as ToolSchema[]);
    const wanted = { prompt, maxTokens: number(body['max_tokens'], 16), fields: body };
    const full = this.#overflow(wanted);
    if (full) return full;
    const { tokens, finishReason } = await this.#sample(wanted, signal);
    const stopped = finishReason === 'stop';
    const text = tokenizer.decode(stopped ? tokens.slice(0, -1) : tokens);
    const parsed = parseToolCalls(text, toolCallFormatOf(tokenizer.chatTemplate));
    const calls = parsed.kind === 'calls' && stopped ? parsed.calls : [];
    const tool_calls = calls.map(({ name, arguments: given }, i) => ({
      id: `call_${prompt.length}_${i}`, type: 'function', function: { name, arguments: JSON.stringify(given) },
    }));
    const message = { role: 'assistant', content: calls.length > 0 ? parsed.content : text, ...(calls.length > 0 ? { tool_calls } : {}) };
    const finish_reason = stopped ? (calls.length > 0 ? 'tool_calls' : 'stop') : 'length';
    return { body: { object: 'chat.completion', choices: [{ index: 0, message, finish_reason }], usage: { prompt_tokens: prompt.length, completion_tokens: tokens.length } } };
  }
}

/** A message of OpenAI's as chat templates read it. */
function templated(message: Record<string, unknown>): Message {
  const content = (message['content'] ?? '') as string;
  const calls = (message['tool_calls'] ?? []) as Array<{ function: { name: string; arguments: string } }>;
  if (message['role'] === 'tool') return { role: 'tool', name: '', content };
  if (message['role'] !== 'assistant') return { role: message['role'] as 'user', content };
  const toolCalls = calls.map(({ function: { name, arguments: text } }) => ({ name, arguments: JSON.parse(text) as Record<string, unknown> }));
  return { role: 'assistant', content, ...(toolCalls.length > 0 ? { toolCalls } : {}) };
}

export function serveEngine(served: Served): Handler {
  const server = new ServedEngine(served);
  return (asked, signal) => server.answer(asked, signal);
}
