/** Downloads files of a model or a dataset from a hub to Hugging Face's cache: all of them are of one commit. */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HubApiError, datasetInfo, downloadFile as openFile, listFiles, modelInfo, pathsInfo } from '@huggingface/hub';
import { withLock } from '#setup/process-lock.mjs';
import { DamagedDownload, type Fetch, type RemoteFile, downloadFile } from './download-file.ts';
import { isCommit, isPolicyFile, type RepoKind, repoFolder, snapshotFolder } from './hub-cache.ts';
import type { HubId } from './hub-id.ts';

export interface HubAccess {
  readonly cache: string;
  /** The hub's address. */
  readonly endpoint: string;
  readonly token?: string | undefined;
}

export interface DownloadProgress {
  readonly file: string;
  /** Downloaded bytes of all files together. */
  readonly bytes: number;
  readonly totalBytes: number;
}

/** A request fails if the hub does not start to answer within this time. */
const answerMs = 30_000;
const tries = 4;
const firstPauseMs = 500;

/** `fetch` with a limit on the wait for the answer's headers. The reader of the body has its own limit. */
const patientFetch: typeof fetch = async (input, init) => {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error(`no answer within ${answerMs / 1000} s`)), answerMs);
  try {
    return await fetch(input, { ...init, signal: controller.signal });
  } finally {
    clearTimeout(timer);
  }
};

/** True if a retry may help: for errors of the network, and of a hub that fails or is overloaded. */
export function isPassing(error: unknown): boolean {
  if (error instanceof HubApiError) return error.statusCode >= 500 || error.statusCode === 429;
  return !(error instanceof DamagedDownload) && !(error instanceof Error && 'code' in error);
}

/** The HTTP status of a refusal that a retry does not change; `undefined` for other errors. */
export const refusedWith = (error: unknown): number | undefined =>
  error instanceof HubApiError && !isPassing(error) ? error.statusCode : undefined;

const common = ({ endpoint, token }: HubAccess) => ({
  hubUrl: endpoint,
  fetch: patientFetch,
  ...(token === undefined ? {} : { accessToken: token }),
});

interface Listed {
  readonly type: string;
  readonly path: string;
  readonly size: number;
  readonly oid?: string | undefined;
  readonly lfs?: { readonly oid: string } | undefined;
}

/** In a list; none if the hub gives no name of its content. */
function remoteFile({ type, path: name, size, oid, lfs }: Listed): RemoteFile[] {
  const etag = lfs?.oid ?? oid;
  if (type !== 'file' || etag === undefined || !/^[0-9a-f]+$/.test(etag)) return [];
  return [{ path: name, size, etag, sha256: lfs?.oid }];
}

async function policyFiles(id: HubId, commit: string, access: HubAccess): Promise<RemoteFile[]> {
  const files: RemoteFile[] = [];
  for await (const listed of listFiles({ ...common(access), repo: id.repo, revision: commit }))
    if (isPolicyFile(listed.path)) files.push(...remoteFile(listed));
  return files;
}

/** The hub has no such file in this commit. */
export class NoSuchFile extends Error {
  override readonly name = 'NoSuchFile';
  readonly commit: string;

  constructor(file: string, commit: string) {
    super(`commit ${commit} has no file ${file}`);
    this.commit = commit;
  }
}

async function datasetFile(id: HubId, commit: string, file: string, access: HubAccess): Promise<RemoteFile[]> {
  const repo = { type: 'dataset', name: id.repo } as const;
  const listed = await pathsInfo({ ...common(access), repo, revision: commit, paths: [file] });
  const files = listed.filter(({ path: name }) => name === file).flatMap(remoteFile);
  if (files.length === 0) throw new NoSuchFile(file, commit);
  return files;
}

function fetchFrom(kind: RepoKind, id: HubId, commit: string, access: HubAccess): Fetch {
  const repo = { type: kind, name: id.repo };
  return async (file, offset) => {
    const blob = await openFile({ ...common(access), repo, revision: commit, path: file.path, xet: false });
    if (blob === null) throw new DamagedDownload(`${file.path} was removed from the hub during the download`);
    return (offset === 0 ? blob : blob.slice(offset)).stream();
  };
}

async function persistently(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      if (attempt === tries || !isPassing(error)) throw error;
      await sleep(firstPauseMs * 2 ** (attempt - 1));
    }
  }
}

async function commitOf(kind: RepoKind, id: HubId, access: HubAccess): Promise<string> {
  const asked = { ...common(access), name: id.repo, revision: id.revision };
  const { sha } =
    kind === 'model'
      ? await modelInfo({ ...asked, additionalFields: ['sha'] })
      : await datasetInfo({ ...asked, additionalFields: ['sha'] });
  return sha;
}

type OnProgress = (progress: DownloadProgress) => void;

/** Returns the snapshot's folder and its commit. */
async function download(
  kind: RepoKind,
  id: HubId,
  access: HubAccess,
  list: (commit: string) => Promise<readonly RemoteFile[]>,
  onProgress: OnProgress,
): Promise<{ readonly snapshot: string; readonly commit: string }> {
  const commit = isCommit(id.revision) && kind === 'dataset' ? id.revision : await commitOf(kind, id, access);
  const folder = repoFolder(access.cache, id, kind);
  const places = { blobs: path.join(folder, 'blobs'), snapshot: snapshotFolder(folder, commit) };
  const files = await list(commit);
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0);
  const fetchPart = fetchFrom(kind, id, commit, access);
  await mkdir(folder, { recursive: true });
  let bytes = 0;
  await withLock(
    path.join(folder, '.longhaul-download'),
    () => undefined,
    async () => {
      for (const file of files) {
        await persistently(() =>
          downloadFile(file, places, fetchPart, (more) =>
            onProgress({ file: file.path, bytes: (bytes += more), totalBytes }),
          ),
        );
      }
    },
  );
  // Written last, so that a revision always refers to a downloaded snapshot.
  if (commit !== id.revision) {
    const ref = path.join(folder, 'refs', id.revision);
    await mkdir(path.dirname(ref), { recursive: true });
    await writeFile(ref, commit);
  }
  return { snapshot: places.snapshot, commit };
}

/** Returns the snapshot's folder. Errors: `HubApiError`, `DamagedDownload`, those of network and file system. */
export async function downloadModel(id: HubId, access: HubAccess, onProgress: OnProgress): Promise<string> {
  const list = (commit: string) => policyFiles(id, commit, access);
  return (await download('model', id, access, list, onProgress)).snapshot;
}

/** Returns a file of a dataset, and its commit. Errors: `NoSuchFile`, and those of `downloadModel`. */
export async function downloadDatasetFile(
  id: HubId & { readonly path: string },
  access: HubAccess,
  onProgress: OnProgress = () => undefined,
): Promise<{ readonly path: string; readonly commit: string }> {
  const list = (commit: string) => datasetFile(id, commit, id.path, access);
  const { snapshot, commit } = await download('dataset', id, access, list, onProgress);
  return { path: path.join(snapshot, id.path), commit };
}
