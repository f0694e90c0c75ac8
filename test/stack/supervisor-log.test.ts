/** Hunts a supervisor whose own log fills the disk: it runs for months, and logs each failed start of a process. */

import { closeSync, existsSync, mkdtempSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openLog } from '../../stack/processes/log-files.ts';
import { stackPaths, supervisorLog } from '../../connection/stack-paths.ts';
import { Supervisor } from '../../stack/supervisor.ts';

const MiB = 1024 * 1024;
let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'longhaul-own-log-'));
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(home, { recursive: true, force: true });
});

test('the log of a supervisor is moved while it runs, and it goes on writing behind what is left', async () => {
  const paths = stackPaths(home);
  const log = supervisorLog(paths);
  const descriptor = openLog(log);
  const said: string[] = [];
  const say = (line: string) => {
    said.push(line);
    writeSync(descriptor, `${line}\n`);
  };
  const stop = new AbortController();
  const running = new Supervisor(
    paths,
    { namespace: 'default', cluster: { address: 'nowhere:7233' }, settings: {}, retentionHours: 24, workers: () => [] },
    say,
  ).run(stop.signal);
  await vi.waitFor(() => expect(said).toEqual([expect.stringContaining('the stack is up')]));
  truncateSync(log, 25 * MiB);
  vi.advanceTimersByTime(30_000);
  const left = statSync(log).size;
  expect(left).toBeLessThanOrEqual(20 * MiB);
  expect(existsSync(`${log}.1`)).toBe(true);
  stop.abort();
  await running;
  closeSync(descriptor);
  expect(statSync(log).size).toBe(left + said.slice(1).reduce((sum, line) => sum + line.length + 1, 0));
});
