/** From a path or a hub id to a policy's directory. Without a network, the error names the cache and the remedies. */

import { type Environment, cachedSnapshot, hubCache, isCommit, isComplete } from './hub-cache.ts';
import { hubEndpoint, hubToken, isOffline, reasonOf } from './hub-access.ts';
import type { DownloadProgress } from './download-repo.ts';
import { type HubId, parseHubId } from './hub-id.ts';
import { folderOf } from '../../protocol/policy-uri.ts';
import { readAdapterJson } from '../lora/adapter-files.ts';

/** The model is not in the cache and cannot be downloaded; or it is in the cache and cannot be used. */
export class ModelUnavailable extends Error {
  override readonly name = 'ModelUnavailable';
  readonly id: string;
  readonly cache: string;
  /** True if the hub was not asked, or did not answer: nothing is known about the model. */
  readonly unreachable: boolean;
  constructor(
    { repo, revision }: HubId,
    cache: string,
    problem: string,
    remedy: string,
    where: 'in' | 'not in' = 'not in',
  ) {
    super(`model ${repo} (revision ${revision}) is ${where} the cache ${cache}, and ${problem}; ${remedy}`);
    this.id = repo;
    this.cache = cache;
    this.unreachable = remedy === withoutHub;
  }
}

export interface ResolveOptions {
  readonly env?: Environment;
  readonly onProgress?: (progress: DownloadProgress) => void;
}

const withoutHub =
  'copy it to that cache (from a connected machine: `hf download`; HF_HOME sets another cache folder), ' +
  'or give the path of its directory';

function refusal(id: HubId, cache: string, status: number): ModelUnavailable {
  const problem = `the hub refused it (HTTP ${status})`;
  const remedy = 'check id and revision; a gated or private model needs a token (`hf auth login`, or HF_TOKEN)';
  return new ModelUnavailable(id, cache, problem, `${remedy}; or give the path of its directory`);
}

async function fromHub(
  id: HubId,
  { env = process.env, onProgress = () => undefined }: ResolveOptions,
): Promise<string> {
  const [cache, endpoint] = [hubCache(env), hubEndpoint(env)];
  const cached = await cachedSnapshot(cache, id);
  if (cached !== undefined && isCommit(id.revision)) return cached;
  if (isOffline(env)) {
    if (cached !== undefined) return cached;
    throw new ModelUnavailable(id, cache, 'HF_HUB_OFFLINE forbids the network', withoutHub);
  }
  // The hub's client is large: it is loaded only for a hub id.
  const { downloadModel, isPassing, refusedWith } = await import('./download-repo.ts');
  try {
    const snapshot = await downloadModel(id, { cache, endpoint, token: await hubToken(env) }, onProgress);
    if (await isComplete(snapshot)) return snapshot;
    throw new ModelUnavailable(
      id,
      cache,
      'on the hub it lacks config.json, tokenizer.json or safetensors weights',
      'choose a model with these files',
    );
  } catch (error) {
    if (error instanceof ModelUnavailable) throw error;
    const status = refusedWith(error);
    if (status !== undefined) throw refusal(id, cache, status);
    if (!isPassing(error)) throw error;
    // As in `transformers`: if the hub cannot be reached, a revision's last snapshot is used.
    if (cached !== undefined) return cached;
    throw new ModelUnavailable(id, cache, `${endpoint} cannot be reached (${reasonOf(error)})`, withoutHub);
  }
}

/** An adapter from a hub must not name a folder of this machine as its base. Errors: `ModelUnavailable`. */
async function refuseFolder(id: HubId, cache: string, snapshot: string): Promise<void> {
  const base = (await readAdapterJson(snapshot))?.['base_model_name_or_path'];
  if (typeof base !== 'string' || parseHubId(base) !== undefined) return;
  throw new ModelUnavailable(
    id,
    cache,
    `its adapter names a folder as its base (${JSON.stringify(base)})`,
    'choose one whose base is a model of the hub, or download it and give the path of its directory',
    'in',
  );
}

/**
 * Returns a path unchanged, and the path of a `file:` URI; finds `hub:org/name@revision` in the cache or downloads it.
 * Errors: `ModelUnavailable`.
 */
export async function resolveModel(text: string, options: ResolveOptions = {}): Promise<string> {
  if (!text.startsWith('hub:')) return folderOf(text) ?? text;
  const id = parseHubId(text);
  if (id === undefined) throw new TypeError(`${text}: write a hub id as hub:org/name or hub:org/name@revision`);
  const snapshot = await fromHub(id, options);
  await refuseFolder(id, hubCache(options.env), snapshot);
  return snapshot;
}
