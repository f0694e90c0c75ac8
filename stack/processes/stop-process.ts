/** Ends one process by its pid and start time: asked first, killed after a deadline, never mistaken for another one. */

import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, type ProcessIdentity } from '#setup/process-identity.mjs';

const POLL_MS = 50;

/** Returns when it is gone; true when it had to be killed. Clocks that are set meanwhile change nothing. */
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
    // It ended between the look and the signal.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
