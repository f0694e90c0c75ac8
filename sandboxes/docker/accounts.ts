/**
 * Which user a sandbox's processes are, inside of its container and on the host: one of its own, since the kernel counts
 * much by user (inotify, pending signals, pages of pipes, keys), and what one sandbox takes of that is not another's.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { sandboxEtc } from '../supervised/runtime.ts';
import type { Engine } from './engine.ts';

/** Above all that a machine gives to its own users, below what 32 bits with a sign hold. */
const WIDE = { first: 2 ** 30, count: 2 ** 30 } as const;
/** What a daemon has whose containers' users are others outside: 65,536 at least. */
const NARROW = { first: 10_000, count: 50_000 } as const;

/**
 * Follows from the sandbox's id, so that nobody keeps count of those that are taken. Of a thousand sandboxes at once two
 * share a user once in two thousand times, and then no more than what is counted by user.
 */
export function uidOf(sandbox: string, { rootless, remapsUsers }: Pick<Engine, 'rootless' | 'remapsUsers'>): number {
  const { first, count } = rootless || remapsUsers ? NARROW : WIDE;
  return first + (createHash('sha256').update(sandbox).digest().readUInt32BE(0) % count);
}

/** The names of users that every sandbox knows, with the agent's number; returns what stands in for which file of the container. */
export function writeAccounts(folder: string, uid: number): ReadonlyArray<readonly [source: string, target: string]> {
  const etc = join(folder, 'etc');
  mkdirSync(etc, { recursive: true });
  return ['passwd', 'group'].map((name) => {
    const text = (sandboxEtc[name] ?? '').replaceAll(/^agent:x:1000:(1000:)?/gmu, (_, group?: string) => `agent:x:${uid}:${group === undefined ? '' : `${uid}:`}`);
    writeFileSync(join(etc, name), text, { mode: 0o644 });
    return [join(etc, name), `/etc/${name}`] as const;
  });
}
