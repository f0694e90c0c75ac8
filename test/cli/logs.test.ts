/** Hunts lines of the logs that `longhaul logs` leaves out, shows twice, or shows in another order. */

import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { runCommandLine } from '../../cli/run.ts';

let home: string;
let folder: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'longhaul-logs-verb-'));
  folder = join(home, 'logs');
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const record = (role: string, second: number, over: object = {}) => ({
  level: 'info',
  time: `2026-01-01T00:00:0${second}.000Z`,
  role,
  pid: 1,
  message: `${role} at ${second}`,
  ...over,
});
const jsonLine = (...given: Parameters<typeof record>) => `${JSON.stringify(record(...given))}\n`;

async function longhaul(args: readonly string[], signal = new AbortController().signal, out: string[] = []) {
  const err: string[] = [];
  const code = await runCommandLine(args, {
    out: (text) => void out.push(text),
    err: (text) => void err.push(text),
    env: { LONGHAUL_HOME: home },
    cwd: home,
    signal,
  });
  return { code, out: out.join(''), err: err.join('') };
}

function writeLogs(): void {
  mkdirSync(folder);
  writeFileSync(join(folder, 'init.log'), jsonLine('init', 2, { runId: 'r' }) + jsonLine('init', 5));
  writeFileSync(join(folder, 'gpu.log.1'), jsonLine('gpu', 1));
  writeFileSync(
    join(folder, 'gpu.log'),
    `${jsonLine('gpu', 3)}a native \u001b[1mwarning\n${jsonLine('gpu', 6, { runId: 'other' })}`,
  );
  writeFileSync(join(folder, 'supervisor.log'), jsonLine('supervisor', 4));
  writeFileSync(join(folder, 'temporal.log'), 'level=info\n');
}

test('lines of all processes are sorted by time, and a line without a record stays behind the line before it', async () => {
  writeLogs();
  const { code, out } = await longhaul(['logs']);
  const at = (second: number, role: string, about = '') =>
    `2026-01-01T00:00:0${second}.000Z INFO ${role}: ${role} at ${second}${about}`;
  expect(code).toBe(0);
  expect(out.trimEnd().split('\n')).toEqual([
    at(1, 'gpu'),
    at(2, 'init', ' (run r)'),
    at(3, 'gpu'),
    String.raw`gpu: a native \x1b[1mwarning`,
    at(4, 'supervisor'),
    at(5, 'init'),
    at(6, 'gpu', ' (run other)'),
  ]);
});

test('the lines of a run are found in all of a log’s files', async () => {
  writeLogs();
  writeFileSync(join(folder, 'gpu.log.3'), jsonLine('gpu', 0, { runId: 'other' }));
  const { out } = await longhaul(['logs', '--run', 'other']);
  expect(
    out
      .trimEnd()
      .split('\n')
      .map((line) => line.slice(0, 24)),
  ).toEqual(['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:06.000Z']);
});

test('one process, the last lines, one run', async () => {
  writeLogs();
  expect((await longhaul(['logs', 'temporal'])).out).toBe('level=info\n');
  expect((await longhaul(['logs', '-n', '1'])).out).toBe('2026-01-01T00:00:06.000Z INFO gpu: gpu at 6 (run other)\n');
  expect((await longhaul(['logs', '--run', 'r'])).out).toBe('2026-01-01T00:00:02.000Z INFO init: init at 2 (run r)\n');
});

test('with --json each line is as it was written', async () => {
  writeLogs();
  const { out } = await longhaul(['logs', 'gpu', '--json']);
  expect(JSON.parse(out)).toEqual({
    folder,
    lines: [
      { process: 'gpu', line: record('gpu', 1) },
      { process: 'gpu', line: record('gpu', 3) },
      { process: 'gpu', line: 'a native \u001b[1mwarning' },
      { process: 'gpu', line: record('gpu', 6, { runId: 'other' }) },
    ],
  });
});

test('new lines are shown too, until an interrupt', async () => {
  writeLogs();
  const stop = new AbortController();
  const out: string[] = [];
  const following = longhaul(['logs', 'init', '--follow', '-n', '0', '--run', 'r'], stop.signal, out);
  // It reads from the position where the file ended when the command started.
  await vi.waitFor(
    () => {
      appendFileSync(join(folder, 'init.log'), jsonLine('init', 7) + jsonLine('init', 8, { runId: 'r' }));
      expect(new Set(out)).toEqual(new Set(['2026-01-01T00:00:08.000Z INFO init: init at 8 (run r)\n']));
    },
    { timeout: 60_000, interval: 300 },
  );
  stop.abort();
  expect((await following).code).toBe(0);
});

test.each([
  [['logs', 'nope'], /process: "nope" cannot be used; give one of gpu, init, supervisor, temporal/],
  [['logs', '--lines', 'x'], /--lines: "x" cannot be used; give a whole number/],
  [['logs', '--follow', '--json'], /--follow: .*--json/],
])('%j is refused', async (args, message) => {
  writeLogs();
  expect(await longhaul(args)).toMatchObject({ code: 2, err: expect.stringMatching(message) });
});

test('the error of a folder without a stack names the command that starts one', async () => {
  expect(await longhaul(['logs'])).toMatchObject({ code: 2, err: expect.stringContaining('npx longhaul up --detach') });
});
