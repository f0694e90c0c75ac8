/** Processes that name a folder in their command line. */

import { readdirSync, readFileSync } from 'node:fs';

export function listProcessesIn(dir: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(dir);
    } catch {
      return false;
    }
  });
}
