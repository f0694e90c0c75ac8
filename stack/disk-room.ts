/** Whether the disks that a stack writes to let it: looked at before anything else is blamed for what does not answer. */

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { endOfRun } from '../reports/run-end.ts';
import { openSqliteStore } from '../store/sqlite-store.ts';
import { stackPaths } from '../connection/stack-paths.ts';

const MIB = 2 ** 20;
/** SQLite's logs of the store and of Temporal's database grow to some MiB each before they are taken in, and logs rotate. */
export const NEEDED_BYTES = 16 * MIB;
/** Files that are written aside and renamed, of every process. */
export const NEEDED_FILES = 64;

export interface DiskPlace {
  readonly what: string;
  /** Need not exist yet. */
  readonly dir: string;
}

export interface DiskTrouble {
  readonly kind: 'full' | 'no-files' | 'read-only';
  /** What is kept there, of what was asked for. */
  readonly what: readonly string[];
  readonly dir: string;
  /** Bytes, or files; absent where it can only be read. */
  readonly free?: number;
  readonly needed?: number;
  /** All of it in a sentence, with what helps. */
  readonly line: string;
}

/** A disk lets nobody write: nothing that needs it is begun. */
export class DiskUnusable extends Error {
  override readonly name = 'DiskUnusable';
  readonly disks: readonly DiskTrouble[];

  constructor(disks: readonly DiskTrouble[]) {
    super(disks.map(({ line }) => line).join('\n'));
    this.disks = disks;
  }
}

export function stackPlaces(home: string): DiskPlace[] {
  return [
    { what: 'the store', dir: join(home, 'store') },
    { what: "Temporal's database and logs", dir: home },
  ];
}

/**
 * Folders of the runs in the store of `home` that have not ended, as far as they are there: a disk that is away is no disk
 * that is full. None where the store cannot be read.
 */
export async function runPlaces(home: string): Promise<DiskPlace[]> {
  const dir = join(stackPaths(home).home, 'store');
  if (!existsSync(dir)) return [];
  try {
    const store = openSqliteStore(dir);
    try {
      const folders = new Set<string>();
      for (const { value } of await store.list<{ readonly run: string; readonly runDir: string }>('run:')) {
        const folder = dirname(value.runDir);
        if (!folders.has(folder) && existsSync(folder) && (await endOfRun(value.run, store)) === undefined)
          folders.add(folder);
      }
      return [...folders].map((folder) => ({ what: 'run folders', dir: folder }));
    } finally {
      await store.close();
    }
  } catch {
    return [];
  }
}

/** The folder itself, or the one that it would be made in. */
function existing(dir: string): string {
  return existsSync(dir) || dirname(dir) === dir ? dir : existing(dirname(dir));
}

function isWritable(dir: string): boolean {
  try {
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const mib = (bytes: number): string => `${(bytes / MIB).toFixed(bytes < 10 * MIB ? 1 : 0)} MiB`;

function troubleOf(dir: string, what: readonly string[]): DiskTrouble | undefined {
  const place = `${dir} (${what.join(', ')})`;
  if (!isWritable(dir))
    return {
      kind: 'read-only',
      what,
      dir,
      line: `${place} can only be read: mount it for writing again, or give it back to this user`,
    };
  const { bavail, bfree, bsize, files, ffree } = statfsSync(dir);
  // Some blocks are kept for root alone.
  const free = (process.getuid?.() === 0 ? bfree : bavail) * bsize;
  const elsewhere = 'or set LONGHAUL_HOME to a folder of another disk';
  if (free < NEEDED_BYTES)
    return {
      kind: 'full',
      what,
      dir,
      free,
      needed: NEEDED_BYTES,
      line: `No space is left at ${place}: ${mib(free)} are free, and ${mib(NEEDED_BYTES)} are needed; free some there, ${elsewhere}`,
    };
  // File systems that count no files say 0.
  if (files === 0 || ffree >= NEEDED_FILES) return undefined;
  return {
    kind: 'no-files',
    what,
    dir,
    free: ffree,
    needed: NEEDED_FILES,
    line: `No file can be made at ${place}: ${ffree} inodes are free, and ${NEEDED_FILES} are needed; remove files there, ${elsewhere}`,
  };
}

/** Each disk once, by the first of `places` on it. */
export function diskTroubles(places: readonly DiskPlace[]): DiskTrouble[] {
  const there = places.map(({ what, dir }) => ({ what, dir: existing(dir) }));
  const disks = Map.groupBy(there, ({ dir }) => `${statSync(dir).dev} ${isWritable(dir)}`);
  return [...disks.values()].flatMap(
    (on) => troubleOf(on[0]?.dir ?? '/', [...new Set(on.map(({ what }) => what))]) ?? [],
  );
}

/** Errors: `DiskUnusable`. */
export function refuseUnusableDisks(places: readonly DiskPlace[]): void {
  const troubles = diskTroubles(places);
  if (troubles.length > 0) throw new DiskUnusable(troubles);
}
