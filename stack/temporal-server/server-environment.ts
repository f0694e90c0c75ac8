/** What the server's own runtime, Go's, is told: how much garbage it may keep before it collects. */

import { totalmem } from 'node:os';

/** With less memory Go's own choice stays: a heap of twice what lives. */
const ROOMY_BYTES = 8 * 2 ** 30;
/** Of the memory: from there on the heap is collected as often as it takes, whatever GOGC says. */
const MOST = 1 / 16;

/** Memory of the machine, or of this process's control group where that is less. */
const usableMemory = (): number => Math.min(totalmem(), process.constrainedMemory() || Infinity);

/**
 * Five times what lives instead of twice: the server's heap is small, and marking it was a tenth of its processor time.
 * By the whole memory, not by what is free now: the same server is wanted from one start to the next. What `env` says stays.
 */
export function serverEnvironment(env: NodeJS.ProcessEnv, memory = usableMemory()): Readonly<Record<string, string>> {
  if (memory < ROOMY_BYTES || env['GOGC'] !== undefined || env['GOMEMLIMIT'] !== undefined) return {};
  return { GOGC: '400', GOMEMLIMIT: `${Math.floor((memory * MOST) / 2 ** 20)}MiB` };
}
