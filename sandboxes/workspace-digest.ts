/**
 * The digest of the state that a rollout's tools see: names, modes and contents of the workspace, and the shell's
 * directory and exports. Equal states have equal digests at any time and on any machine: times and owners are ignored.
 */

import { createHash } from 'node:crypto';
import type { Sandbox } from './sandbox.ts';

/** Of the clock, for a busy machine; what a workspace may need is bounded by the processor time below. */
const TIMEOUT_MS = 60_000;
/**
 * Limit for each program of the command. A workspace that needs more has no digest, on an idle machine as on a busy
 * one. A limit on the call would also count the policy's background processes, and end them.
 */
const CPU_SECONDS = 5;
const OUTPUT_BYTES = 4096;

/** They cache times and inode numbers, which differ between equal trees. */
const LEFT_OUT = ['.git/index', '__pycache__'].map((name) => `--exclude=${name}`).join(' ');
/**
 * Unreadable files are always left out (`tar` then exits with 2), and so are sockets. A partial archive has no digest.
 */
const COMMAND = `ulimit -t ${CPU_SECONDS}
tar --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner ${LEFT_OUT} -cf - . 2>/dev/null | sha256sum
[ "\${PIPESTATUS[0]}" -le 2 ]`;

/**
 * `callId` names this call in the sandbox's journal: the same id returns the same digest. Returns `undefined` if a
 * program needs more than five seconds of processor time (the workspace is too large), or if the policy has filled the
 * sandbox. Errors: those of `exec`.
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
