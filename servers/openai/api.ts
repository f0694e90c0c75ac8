/** OpenAI's API for one served policy, without HTTP: the list of models, and the reply to a prepared request. */

import { type ChatModel, chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import { checkModel, type Prepared } from './prepare-request.ts';
import type { Reply } from './reply.ts';

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

export const replyTo = (prepared: Prepared, model: ChatModel, signal: AbortSignal): Reply =>
  prepared.kind === 'chat' ? chatCompletions(prepared, model, signal) : completions(prepared, model, signal);
