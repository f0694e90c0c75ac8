/** A real disk with little room, for one test: mounting it needs root. */

import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { afterEach } from 'vitest';

/** Makes `dir` and mounts a disk of `bytes` (whole pages) there; it is removed after the test. */
export function useSmallDisk(): (dir: string, bytes: number) => string {
  let mounted: string | undefined;
  afterEach(() => {
    if (mounted !== undefined) execFileSync('umount', ['-l', mounted]);
    mounted = undefined;
  });
  return (dir, bytes) => {
    mkdirSync(dir);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `mode=700,size=${Math.ceil(bytes / 4096) * 4096}`, 'tmpfs', dir]);
    mounted = dir;
    return dir;
  };
}
