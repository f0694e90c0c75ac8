/**
 * Snapshots: the workspace, and the shell's directory and exports, named by their digest. Equal states have equal
 * digests. A restored sandbox has no journal: the results of earlier calls are in the store and are not requested
 * again.
 */

import { createHash } from 'node:crypto';

import type { Store } from '../store/store.ts';
import type { ObjectRef } from '../protocol/stages.ts';
import {
  type Sandbox,
  SandboxImpossible,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
  type ShellState,
} from './sandbox.ts';

export interface Snapshot {
  /** Digest of `workspace` and `shell`. */
  readonly digest: string;
  /** A compressed tar of the workspace, in the store. */
  readonly workspace: ObjectRef;
  readonly bytes: number;
  readonly shell: ShellState;
}

const TIMEOUT_MS = 120_000;
/** Bytes of a piece before base64. A call's output is limited to 8 MiB. */
const PIECE = 6_000_000;
const ARCHIVE = '/tmp/.longhaul-restore.tgz';
/** Equal files give equal bytes: sorted by name, without owners, access and change times. Sparse files stay sparse. */
const TAR =
  'tar --sparse --sort=name --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --owner=0 --group=0 --numeric-owner -cf - .';

async function run(sandbox: Sandbox, callId: string, command: string): Promise<string> {
  const call = { callId, command, timeoutMs: TIMEOUT_MS, outputLimit: 8 << 20, fresh: true };
  const { exitCode, signal, output, timedOut, outOfMemory } = await sandbox.exec(call);
  if (exitCode === 0) return output;
  const how = timedOut ? 'timed out' : outOfMemory ? 'ran out of memory' : `ended with ${exitCode ?? signal}`;
  throw new SandboxUnavailable(`snapshot of ${sandbox.id}: ${how}: ${output.slice(-200)}`);
}

/** Reads the archive in pieces from a command's output, so it needs no disk space in the sandbox. */
async function pack(sandbox: Sandbox, callId: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let piece = 0; ; piece += 1) {
    // Exit code 1: a background process changed a file during the read. The archive still holds a state that it had.
    const tar = `{ ${TAR} 2>/dev/null; [ $? -le 1 ]; } | gzip -n -1`;
    const cut = `tail -c +${piece * PIECE + 1} | head -c ${PIECE} | base64 -w 0`;
    const said = await run(
      sandbox,
      `${callId}/${piece}`,
      `${tar} | ${cut}; s=("\${PIPESTATUS[@]}"); echo " \${s[0]} \${s[1]}"; [ "\${s[-1]}" = 0 ]`,
    );
    const [, text = '', packed, zipped] = /^(\S*) (\d+) (\d+)\s*$/u.exec(said) ?? [];
    const bytes = Buffer.from(text, 'base64');
    pieces.push(bytes);
    // Except for the last piece, `head` ends first and breaks the pipe; that is not a failure.
    if (bytes.length === PIECE) continue;
    if (packed === '0' && zipped === '0') return Buffer.concat(pieces);
    throw new SandboxUnavailable(`snapshot of ${sandbox.id}: not all of the workspace could be read`);
  }
}

const digestOf = (workspace: ObjectRef, shell: ShellState): string =>
  createHash('sha256')
    .update(JSON.stringify([workspace, shell.directory, shell.exports]))
    .digest('hex');

/** `callId` names this snapshot in the sandbox's journal: the same id returns the same snapshot. */
export async function takeSnapshot(sandbox: Sandbox, store: Store, callId: string): Promise<Snapshot> {
  if (sandbox.state === undefined) throw new SandboxImpossible(`sandbox ${sandbox.id} cannot be snapshotted`);
  const shell = await sandbox.state();
  const archive = await pack(sandbox, callId);
  const workspace = await store.putObject(archive);
  return { digest: digestOf(workspace, shell), workspace, bytes: archive.length, shell };
}

async function unpack(sandbox: Sandbox, archive: Uint8Array): Promise<void> {
  const { error } = await sandbox.write({ callId: 'longhaul:restore', path: ARCHIVE, content: archive, note: '' });
  if (error !== undefined)
    throw new SandboxImpossible(
      `snapshot of ${archive.length} bytes cannot be restored into ${sandbox.id}: ${error} in /tmp`,
    );
  await run(sandbox, 'longhaul:unpack', `find . -mindepth 1 -delete && tar -xzpf ${ARCHIVE} && rm ${ARCHIVE}`);
}

/**
 * Makes a new sandbox of `spec` in the state of the snapshot; the spec's files and set-up are ignored. A second call
 * with the same id does not restore again. Errors: those of `create`; `SandboxImpossible` if the archive does not fit.
 */
export async function restoreSnapshot(
  provider: SandboxProvider,
  store: Store,
  spec: SandboxSpec,
  snapshot: Snapshot,
): Promise<Sandbox> {
  const archive = await store.getObject(snapshot.workspace);
  const { setup: _, ...bare } = spec;
  const sandbox = await provider.create({ ...bare, files: [] });
  try {
    if (sandbox.resume === undefined) throw new SandboxImpossible(`sandboxes of ${provider.name} cannot be restored`);
    const done = await sandbox.written('longhaul:restored');
    if (done !== undefined) return sandbox;
    await unpack(sandbox, archive);
    await sandbox.resume(snapshot.shell);
    await sandbox.write({
      callId: 'longhaul:restored',
      path: '/tmp/.longhaul-restored',
      content: new Uint8Array(),
      note: snapshot.digest,
    });
    return sandbox;
  } catch (error) {
    sandbox.close();
    await provider.destroy(spec.id);
    throw error;
  }
}
