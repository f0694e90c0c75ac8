/** OpenAI's API over one served policy, apart from HTTP: which path is answered by what. */

import { ApiError } from './api-error.ts';
import { type ChatModel, chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import { readChatCompletion, readCompletion } from './read-request.ts';
import type { Reply } from './reply.ts';

/** What `/v1/models` names as its server: ids are taken and given as vLLM does. */
export const SERVER_NAME = 'longhaul';

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  /** Of a POST, as parsed. */
  readonly body: unknown;
}

function models({ name, contextTokens }: ChatModel, owner: string): object {
  return {
    object: 'list',
    data: [{ id: name, object: 'model', created: 0, owned_by: owner, max_model_len: contextTokens }],
  };
}

function checkModel(asked: string, { name }: ChatModel): void {
  if (asked === name) return;
  throw new ApiError(404, `The model ${JSON.stringify(asked)} does not exist.`, {
    param: 'model',
    code: 'model_not_found',
  });
}

/** Errors: `ApiError` for what is refused, here or while the reply is made. */
export function replyTo(
  { method, path, body }: ApiRequest,
  model: ChatModel,
  signal: AbortSignal,
  owner = SERVER_NAME,
): Reply {
  if (path === '/v1/models' && method === 'GET') return { body: () => Promise.resolve(models(model, owner)) };
  const isCompletion = path === '/v1/completions';
  if (!isCompletion && path !== '/v1/chat/completions') throw new ApiError(404, `there is no ${path} here`);
  if (method !== 'POST') throw new ApiError(405, `${path} takes POST`);
  if (isCompletion) {
    const request = readCompletion(body);
    checkModel(request.model, model);
    return completions(request, model, signal);
  }
  const request = readChatCompletion(body);
  checkModel(request.model, model);
  return chatCompletions(request, model, signal);
}
