/** The files of a policy that is an adapter: PEFT's two files in its directory, the base's weights in another. */

import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { cachedSnapshot, hubCache } from '../hub/hub-cache.ts';
import { parseHubId } from '../hub/hub-id.ts';
import type { Weights } from '../model/weights.ts';
import { type AdapterJson, UnsupportedAdapter, baseOf } from './adapter-config.ts';
import type { AdapterWeights } from './adapter-layout.ts';

export const adapterFile = 'adapter_model.safetensors';
export const adapterConfigFile = 'adapter_config.json';

/** PEFT's configuration; `undefined` if the directory has no adapter. */
export async function readAdapterJson(dir: string): Promise<AdapterJson | undefined> {
  try {
    return JSON.parse(await readFile(path.join(dir, adapterConfigFile), 'utf8')) as AdapterJson;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Places of a base that is a path: relative to the adapter, or to the working directory. */
const placesOf = (dir: string, base: string): string[] => [path.resolve(dir, base), path.resolve(base)];

/** The directory of the adapter's base: a path, or a model in the hub's cache. Errors: `UnsupportedAdapter`. */
export async function baseDirectory(dir: string, json: AdapterJson): Promise<string> {
  const base = baseOf(json);
  for (const candidate of placesOf(dir, base)) {
    if ((await stat(candidate).catch(() => undefined))?.isDirectory() === true) return candidate;
  }
  const id = parseHubId(base);
  const snapshot = id === undefined ? undefined : await cachedSnapshot(hubCache(), id);
  if (snapshot !== undefined) return snapshot;
  throw new UnsupportedAdapter(
    'base_model_name_or_path',
    base,
    `give the base policy's directory; relative paths start from ${dir}`,
  );
}

/**
 * The configuration to write into other directories for the adapter in `dir`, whose base is in `found`: a relative path
 * is made absolute, since it would mean another directory there. A hub id is not changed.
 */
export function withFixedBase(dir: string, json: AdapterJson, found: string): AdapterJson {
  const base = baseOf(json);
  return path.isAbsolute(base) || !placesOf(dir, base).includes(found)
    ? json
    : { ...json, base_model_name_or_path: found };
}

/** The directory of the policy's weights: its own, or its base's. */
export async function weightsDirectory(dir: string): Promise<string> {
  const json = await readAdapterJson(dir);
  return json === undefined ? dir : baseDirectory(dir, json);
}

export interface PolicyFiles {
  readonly weights: Weights;
  readonly adapter: AdapterWeights | undefined;
}
