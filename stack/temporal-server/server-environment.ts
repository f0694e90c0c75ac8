/** Settings of the server's Go runtime: how much garbage it may keep before it collects. */

import { totalmem } from 'node:os';

/** With less memory Go's default stays: a heap of twice the live size. */
const ROOMY_BYTES = 8 * 2 ** 30;
/** The share of memory above which Go collects as often as necessary, whatever GOGC is. */
const MOST = 1 / 16;

/** Memory of the machine, or of this process's control group if that is less. */
const usableMemory = (): number => Math.min(totalmem(), process.constrainedMemory() || Infinity);

/**
 * A heap of five times the live size instead of twice: the heap is small, and marking it took a tenth of the server's
 * processor time. It depends on the total memory, not on the free memory, so that every start has the same settings.
 * Variables in `env` take precedence.
 */
export function serverEnvironment(env: NodeJS.ProcessEnv, memory = usableMemory()): Readonly<Record<string, string>> {
  if (memory < ROOMY_BYTES || env['GOGC'] !== undefined || env['GOMEMLIMIT'] !== undefined) return {};
  return { GOGC: '400', GOMEMLIMIT: `${Math.floor((memory * MOST) / 2 ** 20)}MiB` };
}
