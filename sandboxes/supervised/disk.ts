/** How `diskMiB` is divided: what is written anywhere sums up to it, and each place has room for something. */

const MIB = 1 << 20;

/** Sizes in bytes. */
export function diskShares(diskMiB: number): { readonly workspace: number; readonly tmp: number; readonly shm: number } {
  const shm = Math.max(MIB, Math.floor((diskMiB * MIB) / 16));
  const tmp = Math.max(MIB, Math.floor((diskMiB * MIB * 3) / 16));
  return { workspace: Math.max(MIB, diskMiB * MIB - shm - tmp), tmp, shm };
}
