/** Downloads a repository's file to the cache. A file with a blob's name is complete; an interrupted one continues. */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat, symlink } from 'node:fs/promises';
import path from 'node:path';

export interface RemoteFile {
  readonly path: string;
  readonly size: number;
  /** The name of its content in the cache. */
  readonly etag: string;
  /** SHA-256 of the content, if the hub reports it. */
  readonly sha256: string | undefined;
}

/** The part of a file from `offset` on. */
export type Fetch = (file: RemoteFile, offset: number) => Promise<ReadableStream<Uint8Array>>;

/** The downloaded file differs from what the hub announced. The file is removed. */
export class DamagedDownload extends Error {
  override readonly name = 'DamagedDownload';
}

/** An attempt fails if no byte arrives for so long. */
const stallMs = 60_000;

const sizeOf = (file: string): Promise<number> =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  );

async function nextChunk(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | undefined> {
  const { promise: stalled, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no data for ${stallMs / 1000} s`)), stallMs);
  try {
    return (await Promise.race([reader.read(), stalled])).value;
  } finally {
    clearTimeout(timer);
  }
}

async function append(file: RemoteFile, to: string, fetch: Fetch, onBytes: (bytes: number) => void): Promise<void> {
  const begun = await sizeOf(to);
  if (begun >= file.size) return;
  const reader = (await fetch(file, begun)).getReader();
  const handle = await open(to, 'a');
  try {
    for (let chunk = await nextChunk(reader); chunk !== undefined; chunk = await nextChunk(reader)) {
      await handle.writeFile(chunk);
      onBytes(chunk.length);
    }
    await handle.sync();
  } finally {
    await handle.close();
    // An abandoned stream may fail too, and nobody else handles that.
    void reader.cancel().catch(() => undefined);
  }
}

async function check(file: RemoteFile, at: string): Promise<void> {
  const size = await sizeOf(at);
  if (size < file.size) throw new Error(`the connection ended after ${size} of ${file.size} bytes`);
  const digest = createHash('sha256');
  if (file.sha256 !== undefined) for await (const bytes of createReadStream(at)) digest.update(bytes as Uint8Array);
  if (size === file.size && (file.sha256 === undefined || digest.digest('hex') === file.sha256)) return;
  await rm(at, { force: true });
  throw new DamagedDownload(
    `${file.path} differs from what the hub announced (${size} bytes of ${file.size}). It was removed: try again`,
  );
}

/** Downloads the blob if it is missing, and links it into the snapshot. Errors: `DamagedDownload`, those of `fetch`. */
export async function downloadFile(
  file: RemoteFile,
  places: { readonly blobs: string; readonly snapshot: string },
  fetch: Fetch,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const [blob, pointer] = [path.join(places.blobs, file.etag), path.join(places.snapshot, file.path)];
  await Promise.all([places.blobs, path.dirname(pointer)].map((folder) => mkdir(folder, { recursive: true })));
  if (
    await stat(pointer).then(
      () => true,
      () => false,
    )
  )
    return;
  if ((await sizeOf(blob)) !== file.size) {
    const incomplete = `${blob}.incomplete`;
    await append(file, incomplete, fetch, onBytes);
    await check(file, incomplete);
    await rename(incomplete, blob);
  }
  await rm(pointer, { force: true });
  await symlink(path.relative(path.dirname(pointer), blob), pointer);
}
