/** The policy that a rollout on its own uses: the built-in starter, or a directory in Hugging Face layout. */

import { readFile } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { DEFAULT_AGENT, DEFAULT_SAMPLING } from '../../workflows/resolve-rollout.ts';
import type { PolicyRef } from '../../workflows/types.ts';
import { UserInputError } from '../errors.ts';

export interface ChosenPolicy {
  readonly policy: PolicyRef;
  /** Tokens that it can attend to, as far as it says so, and of these what one turn may sample. */
  readonly maxContextTokens: number;
  readonly maxTokens: number;
}

async function positionsOf(dir: string): Promise<number> {
  const config = JSON.parse(await readFile(join(dir, 'config.json'), 'utf8')) as { max_position_embeddings?: number };
  return config.max_position_embeddings ?? DEFAULT_AGENT.maxContextTokens;
}

/** Errors: `UserInputError` for a directory that holds no policy. */
export async function choosePolicy(name: string, cwd: string): Promise<ChosenPolicy> {
  const dir = name === 'starter' ? join(packageRoot, 'examples', 'starter') : isAbsolute(name) ? name : resolve(cwd, name);
  try {
    await readFile(join(dir, 'tokenizer.json'));
    const maxContextTokens = Math.min(DEFAULT_AGENT.maxContextTokens, await positionsOf(dir));
    const maxTokens = Math.min(DEFAULT_SAMPLING.maxTokens, Math.ceil(maxContextTokens / 4));
    return { policy: { dir, version: 0 }, maxContextTokens, maxTokens };
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new UserInputError('--policy', name, `give starter, or a directory in Hugging Face layout (${why})`);
  }
}
