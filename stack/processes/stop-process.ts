/** Ends one process: SIGTERM, and SIGKILL after a deadline. Pid and start time identify it, so no other is hit. */

import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, type ProcessIdentity } from '#setup/process-identity.mjs';

const POLL_MS = 50;

/** Returns when the process has ended; true if it had to be killed. A changed system clock has no effect. */
export async function stopProcess(identity: ProcessIdentity, deadlineMs: number): Promise<boolean> {
  signal(identity, 'SIGTERM');
  const deadline = performance.now() + deadlineMs;
  while (isAlive(identity)) {
    if (performance.now() >= deadline) {
      signal(identity, 'SIGKILL');
      while (isAlive(identity)) await sleep(POLL_MS);
      return true;
    }
    await sleep(POLL_MS);
  }
  return false;
}

function signal(identity: ProcessIdentity, name: NodeJS.Signals): void {
  if (!isAlive(identity)) return;
  try {
    process.kill(identity.pid, name);
  } catch (error) {
    // It ended between the check and the signal.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
