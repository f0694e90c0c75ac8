/** The token that a hub is shown, found where `huggingface_hub` finds it: what `hf auth login` wrote serves here too. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Environment, hubHome } from './hub-cache.ts';

const given = (text: string | undefined): string | undefined => text?.trim() || undefined;

/** `HF_TOKEN`, else what is in the file `HF_TOKEN_PATH`, else in `HF_HOME/token`; `undefined` where there is none. */
export async function hubToken(env: Environment = process.env): Promise<string | undefined> {
  const said = given(env['HF_TOKEN']) ?? given(env['HUGGING_FACE_HUB_TOKEN']);
  if (said !== undefined) return said;
  try {
    return given(await readFile(env['HF_TOKEN_PATH'] ?? path.join(hubHome(env), 'token'), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
