/** From a path or a hub id to a directory with a policy; a closed network is told with what was looked at and what helps. */

import type { DownloadProgress } from './download-model.ts';
import { cachedSnapshot, type Environment, hubCache, isCommit, isComplete } from './hub-cache.ts';
import { type HubId, parseHubId } from './hub-id.ts';
import { hubToken } from './hub-token.ts';

/** The model is neither in the cache nor to be had. */
export class ModelUnavailable extends Error {
  override readonly name = 'ModelUnavailable';
  readonly id: string;
  readonly cache: string;
  constructor({ repo, revision }: HubId, cache: string, problem: string, remedy: string) {
    super(`model ${repo} (revision ${revision}) is not in the cache ${cache}, and ${problem}; ${remedy}`);
    this.id = repo;
    this.cache = cache;
  }
}

export interface ResolveOptions {
  readonly env?: Environment;
  readonly onProgress?: (progress: DownloadProgress) => void;
}

const elsewhere = (cache: string): string =>
  `copy it into that cache (\`hf download\` on a connected machine makes it; HF_HOME names another one: ${cache} is used now), or give the path of its directory`;

function refusal(id: HubId, cache: string, status: number): ModelUnavailable {
  const problem = `the hub refused it (HTTP ${status})`;
  const remedy = 'check id and revision; a gated or private model needs a token (`hf auth login`, or HF_TOKEN)';
  return new ModelUnavailable(id, cache, problem, `${remedy}; or give the path of its directory`);
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return error instanceof Error ? `${error.message}${cause}` : String(error);
}

async function fromHub(id: HubId, { env = process.env, onProgress = () => undefined }: ResolveOptions): Promise<string> {
  const [cache, endpoint] = [hubCache(env), env['HF_ENDPOINT'] ?? 'https://huggingface.co'];
  const cached = await cachedSnapshot(cache, id);
  if (cached !== undefined && isCommit(id.revision)) return cached;
  if (['1', 'true', 'yes', 'on'].includes((env['HF_HUB_OFFLINE'] ?? '').toLowerCase())) {
    if (cached !== undefined) return cached;
    throw new ModelUnavailable(id, cache, 'HF_HUB_OFFLINE forbids the network', elsewhere(cache));
  }
  // The hub's client is large, and only who has a hub id waits for it.
  const { downloadModel, isPassing, refusedWith } = await import('./download-model.ts');
  try {
    const snapshot = await downloadModel(id, { cache, endpoint, token: await hubToken(env) }, onProgress);
    if (await isComplete(snapshot)) return snapshot;
    throw new ModelUnavailable(id, cache, 'the hub has no config.json, tokenizer.json and safetensors weights of it', 'choose a model in that layout');
  } catch (error) {
    if (error instanceof ModelUnavailable) throw error;
    const status = refusedWith(error);
    if (status !== undefined) throw refusal(id, cache, status);
    if (!isPassing(error)) throw error;
    // As `transformers` does: without the hub, a revision is what it was last time.
    if (cached !== undefined) return cached;
    throw new ModelUnavailable(id, cache, `${endpoint} cannot be reached (${reasonOf(error)})`, elsewhere(cache));
  }
}

/** A path comes back as it is; `hf:org/name@revision` is found in the cache or downloaded. Errors: `ModelUnavailable`. */
export async function resolveModel(text: string, options: ResolveOptions = {}): Promise<string> {
  if (!text.startsWith('hf:')) return text;
  const id = parseHubId(text);
  if (id === undefined) throw new TypeError(`${text}: write a hub id as hf:org/name or hf:org/name@revision`);
  return fromHub(id, options);
}
