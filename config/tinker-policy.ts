/** `policy.server` of the backend `tinker`, and the URI that the server, the model and the checkpoint become. */

import { existsSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { isTinkerPath, isTinkerUri, parseTinkerUri, TINKER_REDUCTIONS, tinkerUri } from '../protocol/tinker-uri.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { modelUri } from '../trainer/hub/hub-id.ts';

export const TINKER = 'tinker';

export const tinkerServerSchema = z.strictObject({
  baseUrl: z.url({ protocol: /^https?$/ }).transform((url) => url.replace(/\/+$/, '').replace(/\/api\/v1$/, '')),
  apiKeyEnv: z
    .string()
    .regex(/^[A-Za-z_]\w{0,63}$/, 'give the name of a variable that LONGHAUL_KEYS lists, never the key')
    .optional(),
  /** A directory or a hub id with `tokenizer.json` and a chat template. */
  tokenizer: z.string().min(1).optional(),
  /** The base model of a checkpoint that `policy.base` names. */
  model: z.string().min(1).optional(),
  reduction: z.enum(TINKER_REDUCTIONS).optional(),
});
export type TinkerServerSettings = z.infer<typeof tinkerServerSchema>;

interface GivenPolicy {
  readonly base: string;
  readonly backend: string;
  readonly server?: TinkerServerSettings | undefined;
}

/** A folder of this machine that the server was started with: its tokenizer is there. */
const isFolder = (model: string): boolean => isAbsolute(model) && existsSync(resolve(model, 'tokenizer.json'));

function tokenizerOf({ tokenizer }: TinkerServerSettings, model: string, cwd: string): string {
  if (tokenizer !== undefined) return modelUri(tokenizer, cwd);
  if (isFolder(model)) return modelUri(model, cwd);
  throw new UserInputError(
    'policy.server.tokenizer',
    undefined,
    "give a directory or a hub id with the model's tokenizer.json and chat template: a Tinker server has none to give",
  );
}

/**
 * `policy.base` as a URI: of the backend `tinker` with the server's address, of others as a model's. Errors:
 * `UserInputError` for the first field that cannot be used.
 */
export function baseUri({ base, backend, server }: GivenPolicy, cwd: string): string {
  if (backend !== TINKER) {
    if (server === undefined) return modelUri(base, cwd);
    throw new UserInputError('policy.server', server.baseUrl, `leave it out, or give policy.backend: ${TINKER}`);
  }
  if (isTinkerUri(base)) {
    if (server !== undefined)
      throw new UserInputError('policy.server', server.baseUrl, 'leave it out: policy.base names the server');
    return tinkerUri(parseTinkerUri(base, 'policy.base'));
  }
  if (server === undefined)
    throw new UserInputError('policy.server', undefined, 'give { baseUrl, apiKeyEnv, tokenizer } of the Tinker server');
  const { baseUrl, apiKeyEnv, reduction } = server;
  const path = isTinkerPath(base) ? base : undefined;
  if (path === undefined && /^tinker:/.test(base))
    throw new UserInputError('policy.base', base, 'give a model of the server, or tinker://RUN/weights/NAME');
  const model = path === undefined ? base : server.model;
  if (model === undefined)
    throw new UserInputError('policy.server.model', undefined, 'give the base model that the checkpoint was trained from');
  return tinkerUri({
    baseUrl,
    model,
    tokenizer: tokenizerOf(server, model, cwd),
    ...(apiKeyEnv !== undefined && { apiKeyEnv }),
    ...(reduction !== undefined && { reduction }),
    ...(path !== undefined && { path }),
  });
}
