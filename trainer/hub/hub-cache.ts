/** Hugging Face's cache folder: a snapshot that is returned from here has every file that a policy needs. */

import { readFile, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { HubId } from './hub-id.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** `HF_HOME`, else `~/.cache/huggingface`. */
export function hubHome(env: Environment): string {
  return env['HF_HOME'] ?? path.join(env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache'), 'huggingface');
}

/** `HF_HUB_CACHE`, else `HF_HOME/hub`, else `~/.cache/huggingface/hub`, as `huggingface_hub` finds it. */
export function hubCache(env: Environment = process.env): string {
  const explicit = env['HF_HUB_CACHE'] ?? env['HUGGINGFACE_HUB_CACHE'];
  return explicit ?? path.join(hubHome(env), 'hub');
}

/** What a repository has: the hub keeps both kinds under the same names. */
export type RepoKind = 'model' | 'dataset';

export const repoFolder = (cache: string, { repo }: HubId, kind: RepoKind = 'model'): string =>
  path.join(cache, `${kind}s--${repo.replace('/', '--')}`);
export const snapshotFolder = (folder: string, commit: string): string => path.join(folder, 'snapshots', commit);
export const isCommit = (revision: string): boolean => /^[0-9a-f]{40}$/.test(revision);

/** True for the files of a policy, but not for weights in other formats and files in folders. */
export const isPolicyFile = (name: string): boolean =>
  !name.includes('/') &&
  /^(.*\.safetensors|.*\.safetensors\.index\.json|(config|generation_config|adapter_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|merges\.txt|chat_template\.jinja)$/.test(
    name,
  );

const exists = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  );

async function shardsOf(folder: string): Promise<readonly string[]> {
  const text = await readFile(path.join(folder, 'model.safetensors.index.json'), 'utf8').catch(() => undefined);
  if (text === undefined) return ['model.safetensors'];
  const { weight_map: map = {} } = JSON.parse(text) as { weight_map?: Record<string, string> };
  return [...new Set(Object.values(map))];
}

/** True if the folder holds a policy: configuration, tokenizer and all weights; or an adapter's files. */
export async function isComplete(folder: string): Promise<boolean> {
  const all = async (names: readonly string[]): Promise<boolean> =>
    (await Promise.all(names.map((name) => exists(path.join(folder, name))))).every(Boolean);
  if (await all(['adapter_config.json', 'adapter_model.safetensors'])) return true;
  return all(['config.json', 'tokenizer.json', ...(await shardsOf(folder))]);
}

/** The commit of the revision at its last download; `undefined` if the cache does not know it. */
export async function cachedCommit(cache: string, id: HubId, kind: RepoKind = 'model'): Promise<string | undefined> {
  if (isCommit(id.revision)) return id.revision;
  const ref = path.join(repoFolder(cache, id, kind), 'refs', id.revision);
  const text = await readFile(ref, 'utf8').catch(() => undefined);
  return text?.trim();
}

/** The snapshot of the revision at its last download; `undefined` if it is not complete in the cache. */
export async function cachedSnapshot(cache: string, id: HubId): Promise<string | undefined> {
  const commit = await cachedCommit(cache, id);
  if (commit === undefined) return undefined;
  const snapshot = snapshotFolder(repoFolder(cache, id), commit);
  return (await isComplete(snapshot)) ? snapshot : undefined;
}

/** A file of the revision at its last download; `undefined` if it is not in the cache. */
export async function cachedFile(
  cache: string,
  id: HubId & { readonly path: string },
): Promise<{ readonly path: string; readonly commit: string } | undefined> {
  const commit = await cachedCommit(cache, id, 'dataset');
  if (commit === undefined) return undefined;
  const file = path.join(snapshotFolder(repoFolder(cache, id, 'dataset'), commit), id.path);
  return (await exists(file)) ? { path: file, commit } : undefined;
}
