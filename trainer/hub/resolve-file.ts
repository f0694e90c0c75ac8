/** From a hub's dataset file to a file of this machine, and its commit. A commit in the cache needs no network. */

import { type Environment, cachedFile, hubCache, isCommit } from './hub-cache.ts';
import type { DownloadProgress } from './download-repo.ts';
import { hubEndpoint, hubToken, isOffline, reasonOf } from './hub-access.ts';
import { DataUnavailable, type HubFileId } from './hub-file.ts';

const WITHOUT_HUB =
  'copy it to that cache (from a connected machine: `hf download --repo-type dataset`; ' +
  'HF_HOME sets another cache folder), or give the path of a file';

/**
 * A commit is taken from the cache; for a branch or a tag the hub is asked, and the cache is what remains if it cannot
 * be reached. Errors: `DataUnavailable`; `DamagedDownload`; those of the file system.
 */
export async function resolveHubFile(
  id: HubFileId,
  {
    env = process.env,
    onProgress,
  }: { readonly env?: Environment; readonly onProgress?: (progress: DownloadProgress) => void } = {},
): Promise<{ readonly path: string; readonly commit: string }> {
  const [cache, endpoint] = [hubCache(env), hubEndpoint(env)];
  const cached = await cachedFile(cache, id);
  if (cached !== undefined && (isCommit(id.revision) || isOffline(env))) return cached;
  if (isOffline(env))
    throw new DataUnavailable(id, cache, 'HF_HUB_OFFLINE forbids the network', WITHOUT_HUB, { unreachable: true });
  // The hub's client is large: it is loaded only if something may be downloaded.
  const { downloadDatasetFile, isPassing, NoSuchFile, refusedWith } = await import('./download-repo.ts');
  try {
    return await downloadDatasetFile(id, { cache, endpoint, token: await hubToken(env) }, onProgress);
  } catch (error) {
    if (error instanceof NoSuchFile)
      throw new DataUnavailable(id, cache, `the hub has no such file in commit ${error.commit}`, 'check its path', {
        cause: error,
      });
    const status = refusedWith(error);
    if (status !== undefined)
      throw new DataUnavailable(
        id,
        cache,
        `the hub refused it (HTTP ${status})`,
        'check owner, name and revision; a gated or private dataset needs a token (`hf auth login`, or HF_TOKEN)',
        { cause: error },
      );
    if (!isPassing(error)) throw error;
    if (cached !== undefined) return cached;
    throw new DataUnavailable(id, cache, `${endpoint} cannot be reached (${reasonOf(error)})`, WITHOUT_HUB, {
      unreachable: true,
      cause: error,
    });
  }
}
