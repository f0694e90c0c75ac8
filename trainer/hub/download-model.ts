/** Downloads a model from a hub to Hugging Face's cache, and returns a complete snapshot of one commit. */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HubApiError, downloadFile as openFile, listFiles, modelInfo } from '@huggingface/hub';
import { withLock } from '#setup/process-lock.mjs';
import { DamagedDownload, type Fetch, type RemoteFile, downloadFile } from './download-file.ts';
import { isPolicyFile, repoFolder, snapshotFolder } from './hub-cache.ts';
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

async function filesOf(id: HubId, commit: string, access: HubAccess): Promise<RemoteFile[]> {
  const files: RemoteFile[] = [];
  for await (const { type, path: name, size, oid, lfs } of listFiles({
    ...common(access),
    repo: id.repo,
    revision: commit,
  })) {
    const etag = lfs?.oid ?? oid;
    if (type === 'file' && isPolicyFile(name) && etag !== undefined && /^[0-9a-f]+$/.test(etag)) {
      files.push({ path: name, size, etag, sha256: lfs?.oid });
    }
  }
  return files;
}

function fetchFrom(id: HubId, commit: string, access: HubAccess): Fetch {
  return async (file, offset) => {
    const blob = await openFile({ ...common(access), repo: id.repo, revision: commit, path: file.path, xet: false });
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

/** Returns the snapshot's folder. Errors: `HubApiError`, `DamagedDownload`, those of network and file system. */
export async function downloadModel(
  id: HubId,
  access: HubAccess,
  onProgress: (progress: DownloadProgress) => void,
): Promise<string> {
  const { sha: commit } = await modelInfo({
    ...common(access),
    name: id.repo,
    revision: id.revision,
    additionalFields: ['sha'],
  });
  const folder = repoFolder(access.cache, id);
  const places = { blobs: path.join(folder, 'blobs'), snapshot: snapshotFolder(folder, commit) };
  const files = await filesOf(id, commit, access);
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0);
  const fetchPart = fetchFrom(id, commit, access);
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
  return places.snapshot;
}
