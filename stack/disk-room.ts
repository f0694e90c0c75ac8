/** Whether a stack can write to its disks: checked first, since a full disk makes other parts look broken. */

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { endOfRun } from '../reports/run-end.ts';
import { openStore, storeExists, storeFolder } from '../store/open-store.ts';
import { storeUrl } from '../connection/store-url.ts';

const MIB = 2 ** 20;
/** SQLite's write-ahead logs of the store and of Temporal's database grow to some MiB each, and logs are rotated. */
export const NEEDED_BYTES = 16 * MIB;
/** For the files that every process writes aside and renames. */
export const NEEDED_FILES = 64;

export interface DiskPlace {
  readonly what: string;
  /** It may not exist yet. */
  readonly dir: string;
}

export interface DiskTrouble {
  readonly kind: 'full' | 'no-files' | 'read-only';
  /** Which of the requested places are on this disk. */
  readonly what: readonly string[];
  readonly dir: string;
  /** Bytes or files; absent if the disk is read-only. */
  readonly free?: number;
  readonly needed?: number;
  /** The problem in one sentence, with a remedy. */
  readonly line: string;
}

/** A disk cannot be written: nothing that needs it is started. */
export class DiskUnusable extends Error {
  override readonly name = 'DiskUnusable';
  readonly disks: readonly DiskTrouble[];

  constructor(disks: readonly DiskTrouble[]) {
    super(disks.map(({ line }) => line).join('\n'));
    this.disks = disks;
  }
}

/** A store that is not a folder here has no place among them. */
export function stackPlaces(home: string, env: NodeJS.ProcessEnv = process.env): DiskPlace[] {
  const store = storeFolder(storeUrl(home, env));
  return [
    ...(store === undefined ? [] : [{ what: 'the store', dir: store }]),
    { what: "Temporal's database and logs", dir: home },
  ];
}

/**
 * Folders of runs in the store of `home` that have not ended. Missing folders are left out: an unmounted disk is not a
 * full one. Empty if the store cannot be read.
 */
export async function runPlaces(home: string, env: NodeJS.ProcessEnv = process.env): Promise<DiskPlace[]> {
  try {
    const url = storeUrl(home, env);
    if (!(await storeExists(url))) return [];
    const store = await openStore(url);
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

/** The folder itself, or the nearest folder above it that exists. */
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
      line: `${place} is read-only: mount it for writing, or give this user write permission`,
    };
  const { bavail, bfree, bsize, files, ffree } = statfsSync(dir);
  // Some blocks are reserved for root.
  const free = (process.getuid?.() === 0 ? bfree : bavail) * bsize;
  const elsewhere = 'or set LONGHAUL_HOME to a folder of another disk';
  if (free < NEEDED_BYTES)
    return {
      kind: 'full',
      what,
      dir,
      free,
      needed: NEEDED_BYTES,
      line:
        `No space is left at ${place}: ${mib(free)} are free, and ${mib(NEEDED_BYTES)} are required; ` +
        `free some there, ${elsewhere}`,
    };
  // File systems that do not count files report 0.
  if (files === 0 || ffree >= NEEDED_FILES) return undefined;
  return {
    kind: 'no-files',
    what,
    dir,
    free: ffree,
    needed: NEEDED_FILES,
    line:
      `No file can be created at ${place}: ${ffree} inodes are free, and ${NEEDED_FILES} are required; ` +
      `remove files there, ${elsewhere}`,
  };
}

/** One entry per disk with a problem, named by the first of `places` on it. */
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
