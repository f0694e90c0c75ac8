/** The APIs of one served policy, without HTTP: the list of models, and the reply to a prepared request. */

import type { ChatModel } from './answer-turn.ts';
import { chatReply, messageReply, responseReply } from './chat-replies.ts';
import { completions } from './completions.ts';
import { checkModel, type Prepared } from './prepare-request.ts';
import type { Reply } from './reply.ts';
import { ResponseMemory } from './response-memory.ts';

/** The owner of models in `/v1/models`. */
export const SERVER_NAME = 'longhaul';

type Named = Pick<ChatModel, 'name' | 'contextTokens'>;

const cardOf = ({ name, contextTokens }: Named, owner: string): object => ({
  id: name,
  object: 'model',
  created: 0,
  owned_by: owner,
  max_model_len: contextTokens,
});

export const listModels = (model: Named, owner = SERVER_NAME): object => ({
  object: 'list',
  data: [cardOf(model, owner)],
});

/** Errors: `ApiError` 404 for another model. */
export function retrieveModel(asked: string, model: Named): object {
  checkModel(asked, model);
  return cardOf(model, SERVER_NAME);
}

/** Anthropic's shape of a model. */
const anthropicCard = ({ name, contextTokens }: Named): object => ({
  type: 'model',
  id: name,
  display_name: name,
  created_at: '1970-01-01T00:00:00Z',
  max_input_tokens: contextTokens,
  max_tokens: contextTokens,
});

export const listAnthropicModels = (model: Named): object => ({
  data: [anthropicCard(model)],
  first_id: model.name,
  last_id: model.name,
  has_more: false,
});

/** Errors: `ApiError` 404 for another model. */
export function retrieveAnthropicModel(asked: string, model: Named): object {
  checkModel(asked, model);
  return anthropicCard(model);
}

export type Answerable = Exclude<Prepared, { readonly kind: 'continues' }>;

export function replyTo(
  prepared: Answerable,
  model: ChatModel,
  signal: AbortSignal,
  memory = new ResponseMemory(),
): Reply {
  switch (prepared.kind) {
    case 'completion':
      return completions(prepared, model, signal);
    case 'chat':
      return chatReply(prepared, model, signal);
    case 'response':
      return responseReply(prepared, model, memory, signal);
    case 'message':
      return messageReply(prepared.turn, model, signal);
    case 'count':
      return { body: async () => ({ input_tokens: prepared.tokens }) };
  }
}
