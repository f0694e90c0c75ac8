/**
 * The digest of what a rollout's tools see: names, modes and contents of the workspace, and the shell's directory and
 * exports. Equal states have equal digests, whenever and wherever they came about: times and owners do not count.
 */

import { createHash } from 'node:crypto';
import type { Sandbox } from './sandbox.ts';

const TIMEOUT_MS = 15_000;
/**
 * Of each program of the look. What takes more cannot be told, on an idle machine as on a busy one. A limit on the call
 * would count what the policy runs beside the look, and end that.
 */
const CPU_SECONDS = 5;
const OUTPUT_BYTES = 4096;

/** Caches of times and inode numbers, which differ between equal trees. */
const LEFT_OUT = ['.git/index', '__pycache__'].map((name) => `--exclude=${name}`).join(' ');
/** What cannot be read is left out each time (`tar` says 2 then); sockets are no files. Half of an archive is none. */
const COMMAND = `ulimit -t ${CPU_SECONDS}
tar --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner ${LEFT_OUT} -cf - . 2>/dev/null | sha256sum
[ "\${PIPESTATUS[0]}" -le 2 ]`;

/**
 * `callId` names the look in the sandbox's journal: the same one again is the same digest. `undefined` where it cannot
 * be told within five seconds of processor time a program: a workspace too large, or a sandbox that the policy has filled. Errors: those of `exec`.
 */
export async function workspaceDigest(sandbox: Sandbox, callId: string): Promise<string | undefined> {
  const shell = await sandbox.state?.();
  const call = { callId, command: COMMAND, timeoutMs: TIMEOUT_MS, outputLimit: OUTPUT_BYTES, fresh: true };
  const { exitCode, output, timedOut } = await sandbox.exec(call);
  const [workspace] = /^[0-9a-f]{64}/u.exec(output) ?? [];
  if (exitCode !== 0 || timedOut || workspace === undefined) return undefined;
  return createHash('sha256')
    .update(JSON.stringify([workspace, shell?.directory, shell?.exports]))
    .digest('hex');
}
