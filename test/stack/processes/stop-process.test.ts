/** Hunts a process that is killed too early, or waited for too long, because somebody set the clock. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test, vi } from 'vitest';
import { startTimeOf } from '../../../scripts/setup/process-identity.mjs';
import { stopProcess } from '../../../stack/processes/stop-process.ts';

afterEach(() => void vi.useRealTimers());

/** Ends this long after SIGTERM. */
async function draining(ms: number) {
  const program = `process.on('SIGTERM', () => setTimeout(() => process.exit(0), ${ms})); setInterval(() => {}, 1000); console.log('ready');`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return { pid: child.pid ?? 0, startTime: startTimeOf(child.pid ?? 0) ?? '' };
}

const HOUR = 3_600_000;

test.each([
  ['forward', HOUR, 500, 20_000, false],
  ['back', -HOUR, 60_000, 300, true],
])('a clock that is set %s by an hour changes no deadline', async (_, by, drainsMs, deadlineMs, killed) => {
  const identity = await draining(drainsMs);
  vi.useFakeTimers({ toFake: ['Date'] });
  const stopped = stopProcess(identity, deadlineMs);
  vi.setSystemTime(Date.now() + by);
  expect(await stopped).toBe(killed);
  expect(startTimeOf(identity.pid)).toBeUndefined();
});
