/** How a hub is reached, by the variables that `huggingface_hub` reads. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Environment, hubHome } from './hub-cache.ts';

/** `HF_ENDPOINT`, else Hugging Face's hub. */
export const hubEndpoint = (env: Environment): string => env['HF_ENDPOINT'] ?? 'https://huggingface.co';

/** True if `HF_HUB_OFFLINE` forbids the network. */
export const isOffline = (env: Environment): boolean =>
  ['1', 'true', 'yes', 'on'].includes((env['HF_HUB_OFFLINE'] ?? '').toLowerCase());

/** Why a request failed, with its cause: `fetch` says the reason there. */
export function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return error instanceof Error ? `${error.message}${cause}` : String(error);
}

const given = (text: string | undefined): string | undefined => text?.trim() || undefined;

/**
 * The hub's token, found as by `huggingface_hub`: `HF_TOKEN`, else the file `HF_TOKEN_PATH`, else the file
 * `HF_HOME/token`; `undefined` if there is none.
 */
export async function hubToken(env: Environment): Promise<string | undefined> {
  const said = given(env['HF_TOKEN']) ?? given(env['HUGGING_FACE_HUB_TOKEN']);
  if (said !== undefined) return said;
  try {
    return given(await readFile(env['HF_TOKEN_PATH'] ?? path.join(hubHome(env), 'token'), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
