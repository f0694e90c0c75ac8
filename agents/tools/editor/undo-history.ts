/**
 * Earlier versions of edited files, stored in the sandbox outside the workspace. They outlive the worker. A repeated
 * call neither stores nor removes a version twice.
 */

import { createHash } from 'node:crypto';
import { posix } from 'node:path';

import type { Sandbox } from '../../../sandboxes/sandbox.ts';

const FOLDER = '/tmp/.undo';
const MAX_BYTES = 4 << 20;
const TAKE_TIMEOUT_MS = 10_000;

const folderOf = (path: string): string =>
  `${FOLDER}/${createHash('sha256').update(posix.normalize(path)).digest('hex').slice(0, 16)}`;

async function versions(sandbox: Sandbox, path: string): Promise<number[]> {
  const listing = await sandbox.read(folderOf(path), 0);
  if (listing.kind !== 'directory') return [];
  return listing.entries
    .map(Number)
    .filter(Number.isInteger)
    .toSorted((a, b) => a - b);
}

/**
 * Stores the content that an edit is about to replace. If there is no room for it, the edit still runs but cannot be
 * undone.
 */
export async function keepVersion(sandbox: Sandbox, callId: string, path: string, content: Uint8Array): Promise<void> {
  const last = (await versions(sandbox, path)).at(-1) ?? 0;
  await sandbox.write({ callId: `${callId}#keep`, path: `${folderOf(path)}/${last + 1}`, content, note: '' });
}

/**
 * Passes the last version to `restore`, removes it, and returns the answer of `restore`; `undefined` if there is none.
 */
export async function takeLastVersion(
  sandbox: Sandbox,
  callId: string,
  path: string,
  restore: (content: Uint8Array) => Promise<string>,
): Promise<string | undefined> {
  const done = await sandbox.written(callId);
  const last = (await versions(sandbox, path)).at(-1);
  if (last === undefined) return done?.note;
  const file = `${folderOf(path)}/${last}`;
  const content = await sandbox.read(file, MAX_BYTES);
  if (content.kind !== 'file') return done?.note;
  const answer = await restore(content.content);
  const command = `rm -f ${file}`;
  await sandbox.exec({
    callId: `${callId}#forget`,
    command,
    timeoutMs: TAKE_TIMEOUT_MS,
    outputLimit: 1024,
    fresh: true,
  });
  return answer;
}
