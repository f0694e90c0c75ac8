/** Describes a policy by its directory, without an engine. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { weightsDirectory } from '../lora/adapter-files.ts';
import { type ModelConfig, parseModelConfig } from './config.ts';
import { layoutOf, parameterCount } from './parameters.ts';

/** For an adapter without a `config.json`, the base's. */
async function configText(dir: string): Promise<string> {
  try {
    return await readFile(path.join(dir, 'config.json'), 'utf8');
  } catch (error) {
    const base = await weightsDirectory(dir);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || base === dir) throw error;
    return readFile(path.join(base, 'config.json'), 'utf8');
  }
}

/** Errors: `UnsupportedModel`, `UnsupportedAdapter`, the file system's own, JSON's own. */
export async function readModelConfig(dir: string): Promise<ModelConfig> {
  return parseModelConfig(JSON.parse(await configText(dir)));
}

export interface PolicyNumbers {
  /** Tied ones count once. */
  readonly parameters: number;
  /** Entries of the vocabulary. */
  readonly vocabulary: number;
  /** The longest context that its configuration allows. */
  readonly positions: number;
}

export async function describePolicy(dir: string): Promise<PolicyNumbers> {
  const config = await readModelConfig(dir);
  return { parameters: parameterCount(layoutOf(config)), vocabulary: config.vocabSize, positions: config.maxPositions };
}
