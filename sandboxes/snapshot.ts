/**
 * Snapshots: the workspace, and the shell's directory and exports, named by their digest; equal states have equal
 * digests. What is restored has no journal: calls that were answered are in the store, and are not asked for again.
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
  /** Of everything below. */
  readonly digest: string;
  /** A compressed tar of the workspace, in the store. */
  readonly workspace: ObjectRef;
  readonly bytes: number;
  readonly shell: ShellState;
}

const TIMEOUT_MS = 120_000;
/** Before it is written as text; a call's output is limited to 8 MiB. */
const PIECE = 6_000_000;
const ARCHIVE = '/tmp/.longhaul-restore.tgz';
/** The same bytes for the same files: by name, without owners and without the times that a look changes. Holes stay holes. */
const TAR =
  'tar --sparse --sort=name --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --owner=0 --group=0 --numeric-owner -cf - .';

async function run(sandbox: Sandbox, callId: string, command: string): Promise<string> {
  const call = { callId, command, timeoutMs: TIMEOUT_MS, outputLimit: 8 << 20, fresh: true };
  const { exitCode, signal, output, timedOut, outOfMemory } = await sandbox.exec(call);
  if (exitCode === 0) return output;
  const how = timedOut ? 'took too long' : outOfMemory ? 'ran out of memory' : `ended with ${exitCode ?? signal}`;
  throw new SandboxUnavailable(`snapshot of ${sandbox.id}: ${how}: ${output.slice(-200)}`);
}

/** Through the shell's own output, in pieces: it needs no room in the sandbox. */
async function pack(sandbox: Sandbox, callId: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let piece = 0; ; piece += 1) {
    // 1: a file changed while it was read; whatever runs in the background, that is a state that it was in.
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
    // Before the last piece the end of `head` ends what feeds it, which is no failure.
    if (bytes.length === PIECE) continue;
    if (packed === '0' && zipped === '0') return Buffer.concat(pieces);
    throw new SandboxUnavailable(`snapshot of ${sandbox.id}: not all of the workspace could be read`);
  }
}

const digestOf = (workspace: ObjectRef, shell: ShellState): string =>
  createHash('sha256')
    .update(JSON.stringify([workspace, shell.directory, shell.exports]))
    .digest('hex');

/** `callId` names this snapshot in the sandbox's journal: the same one again is the same snapshot. */
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
 * A new sandbox of `spec` in the state of the snapshot: neither the spec's files nor its set-up count. Asked for twice
 * by the same id it is restored once. Errors: those of `create`; `SandboxImpossible` when the archive does not fit.
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
