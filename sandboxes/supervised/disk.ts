/**
 * Divides `diskMiB` between the writable places: their sizes sum up to it, and each has at least 1 MiB. The number of
 * files is limited too, so that the kernel's memory for empty files never fills the sandbox's memory.
 */

import type { SandboxLimits } from '../sandbox.ts';

const MIB = 1 << 20;
const PAGE = 4096;
/**
 * Twice the kernel memory of a file beside its pages, with the longest name and one page at a high offset (measured:
 * under 4 KiB).
 */
const MEMORY_PER_FILE = 8192;
/** Minimum number of files in each place, even a small one. */
const LEAST_FILES = 1024;

/** Sizes in bytes. `folder`: of each of the further folders, whose number is `folders`. */
export function diskShares(
  diskMiB: number,
  folders = 0,
): { readonly workspace: number; readonly tmp: number; readonly shm: number; readonly folder: number } {
  const shm = Math.max(MIB, Math.floor((diskMiB * MIB) / 16));
  const tmp = Math.max(MIB, Math.floor((diskMiB * MIB * 3) / 16));
  const folder = folders === 0 ? 0 : Math.max(MIB, Math.floor((diskMiB * MIB * 6) / 16 / folders));
  return { workspace: Math.max(MIB, diskMiB * MIB - shm - tmp - folders * folder), tmp, shm, folder };
}

/**
 * Number of files, folders and links that a place of `bytes` may hold: one per page, and no more than fit into its
 * share of the sandbox's memory. That memory stays in use after every process of the policy has ended.
 */
export function filesIn(bytes: number, { memoryMiB, diskMiB }: SandboxLimits): number {
  const share = (memoryMiB * bytes) / diskMiB / MEMORY_PER_FILE;
  return Math.max(LEAST_FILES, Math.floor(Math.min(bytes / PAGE, share)));
}
