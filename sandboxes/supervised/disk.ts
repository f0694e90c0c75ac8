/**
 * How `diskMiB` is divided: what is written anywhere sums up to it, each place has room for something, and what the
 * kernel keeps of files without content never takes up the sandbox's memory.
 */

import type { SandboxLimits } from '../sandbox.ts';

const MIB = 1 << 20;
const PAGE = 4096;
/** Twice what a file takes beside its pages, with the longest name and its one page far out (measured: under 4 KiB). */
const MEMORY_PER_FILE = 8192;
/** In each place, however small it is. */
const LEAST_FILES = 1024;

/** Sizes in bytes. */
export function diskShares(diskMiB: number): {
  readonly workspace: number;
  readonly tmp: number;
  readonly shm: number;
} {
  const shm = Math.max(MIB, Math.floor((diskMiB * MIB) / 16));
  const tmp = Math.max(MIB, Math.floor((diskMiB * MIB * 3) / 16));
  return { workspace: Math.max(MIB, diskMiB * MIB - shm - tmp), tmp, shm };
}

/**
 * How many files, folders and links a place of `bytes` may hold: one for each page of it, and no more than its share of
 * the sandbox's memory has room for. That memory stays taken when every process of the policy has ended.
 */
export function filesIn(bytes: number, { memoryMiB, diskMiB }: SandboxLimits): number {
  const share = (memoryMiB * bytes) / diskMiB / MEMORY_PER_FILE;
  return Math.max(LEAST_FILES, Math.floor(Math.min(bytes / PAGE, share)));
}
