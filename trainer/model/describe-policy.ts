/** What is known of a policy from its directory, without an engine. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type ModelConfig, parseModelConfig } from './config.ts';
import { layoutOf, parameterCount } from './parameters.ts';

/** Errors: `UnsupportedModel`, the file system's own, JSON's own. */
export async function readModelConfig(dir: string): Promise<ModelConfig> {
  return parseModelConfig(JSON.parse(await readFile(path.join(dir, 'config.json'), 'utf8')));
}

/** Parameters (tied ones once) and vocabulary entries. */
export async function describePolicy(dir: string): Promise<{ parameters: number; vocabulary: number }> {
  const config = await readModelConfig(dir);
  return { parameters: parameterCount(layoutOf(config)), vocabulary: config.vocabSize };
}
