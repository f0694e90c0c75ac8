/** Hunts logs that fill the disk, and lines that a writer loses when its log is moved away. */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { logTail, openLog, rotateLog } from '../../../stack/processes/log-files.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-logs-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('a log that grew is moved, three generations are kept, and its writer goes on in the emptied file', () => {
  const path = join(directory, 'logs', 'gpu.log');
  const descriptor = openLog(path);
  for (const generation of ['first', 'second', 'third', 'fourth']) {
    writeSync(descriptor, `${generation} generation\n`);
    expect(rotateLog(path, 10)).toBe(true);
  }
  writeSync(descriptor, 'now\n');
  closeSync(descriptor);
  expect(rotateLog(path, 10)).toBe(false);
  expect(readFileSync(path, 'utf8')).toBe('now\n');
  const kept = [1, 2, 3].map((index) => readFileSync(`${path}.${index}`, 'utf8').split(' ')[0]);
  expect(kept).toEqual(['fourth', 'third', 'second']);
});

test('the end of a log is its last lines; a log that is not there has none', () => {
  const path = join(directory, 'a.log');
  const descriptor = openLog(path);
  writeSync(descriptor, 'one\ntwo\nthree\n');
  closeSync(descriptor);
  expect(logTail(path, 2)).toBe('two\nthree');
  expect(logTail(join(directory, 'none.log'))).toBe('');
  expect(rotateLog(join(directory, 'none.log'), 1)).toBe(false);
});

test('what a process says at each of its starts is shown once, and what differs is kept', () => {
  const path = join(directory, 'a.log');
  const starts = ['00', '01', '02'].map(
    (second) => `2026-01-01T00:00:${second}.000Z ERROR no module\n    at load\n    at run\n`,
  );
  writeFileSync(path, `before\n${starts.join('')}`);
  expect(logTail(path)).toBe('before\n2026-01-01T00:00:02.000Z ERROR no module\n    at load\n    at run');
  const ends = ['00', '01'].map((second) =>
    JSON.stringify({
      level: 'fatal',
      time: `2026-01-01T00:00:${second}.000Z`,
      role: 'gpu',
      pid: Number(second),
      message: 'no module',
      error: { class: 'NotSetUp', message: 'no module', stack: 'NotSetUp: no module\n    at load\n    at run' },
    }),
  );
  writeFileSync(path, `before\n${ends.join('\n')}\n`);
  expect(logTail(path)).toBe(
    'before\n2026-01-01T00:00:01.000Z FATAL gpu: NotSetUp: no module\n    at load\n    at run',
  );
  writeFileSync(path, 'step 1\nstep 2\nstep 3\n');
  expect(logTail(path)).toBe('step 1\nstep 2\nstep 3');
});

/** tmpfs cannot remove a file's front: there, as documented, lines may be lost while the file is emptied. */
function collapses(): boolean {
  const probe = join(mkdtempSync(join(tmpdir(), 'longhaul-probe-')), 'probe');
  writeFileSync(probe, Buffer.alloc(256 * 1024));
  const { status } = spawnSync('fallocate', ['--collapse-range', '--offset', '0', '--length', '65536', probe]);
  rmSync(dirname(probe), { recursive: true, force: true });
  return status === 0;
}

test.skipIf(!collapses())(
  'a process that writes without a pause loses no line, in its order, while its log is moved again and again',
  async () => {
    const path = join(directory, 'busy.log');
    const descriptor = openLog(path);
    const lines = 60_000;
    const program = `const fs = require('node:fs'); for (let i = 0; i < ${lines}; i++) fs.writeSync(1, i + ' ' + 'x'.repeat(i % 50) + '\\n');`;
    const writer = spawn(process.execPath, ['-e', program], { stdio: ['ignore', descriptor, descriptor] });
    closeSync(descriptor);
    const ended = once(writer, 'exit');
    let over = false;
    void ended.then(() => {
      over = true;
    });
    const limit = 512 * 1024;
    let moved = 0;
    while (!over) {
      if (rotateLog(path, limit)) moved += 1;
      await sleep(1);
    }
    expect(moved).toBeGreaterThan(0);
    const parts = [`${path}.3`, `${path}.2`, `${path}.1`, path].filter((part) => existsSync(part));
    for (const part of parts.slice(0, -1)) expect(statSync(part).size).toBeLessThanOrEqual(limit);
    const kept = parts
      .map((part) => readFileSync(part, 'utf8'))
      .join('')
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(' '));
    const first = Number(kept[0]?.[0]);
    expect(kept.length).toBeGreaterThan(10_000);
    expect(kept.map(([index, text]) => [Number(index), text?.length ?? -1])).toEqual(
      Array.from({ length: lines - first }, (_, i) => [first + i, (first + i) % 50]),
    );
  },
);

test('where nothing can be taken off a front, the whole log is moved', () => {
  vi.stubEnv('PATH', '');
  try {
    const path = join(directory, 'plain.log');
    const text = Array.from({ length: 40_000 }, (_, i) => `${i}\n`).join('');
    writeFileSync(path, text);
    expect(rotateLog(path, 100_000)).toBe(true);
    expect([readFileSync(path, 'utf8'), readFileSync(`${path}.1`, 'utf8')]).toEqual(['', text]);
  } finally {
    vi.unstubAllEnvs();
  }
});

test.skipIf(!collapses())('what a process wrote in a burst is kept to the size of all generations', () => {
  const path = join(directory, 'burst.log');
  const descriptor = openLog(path);
  for (let i = 0; i < 200; i += 1) writeSync(descriptor, `${String(i).padEnd(9999, '.')}\n`);
  closeSync(descriptor);
  expect(rotateLog(path, 128 * 1024)).toBe(true);
  const parts = [`${path}.3`, `${path}.2`, `${path}.1`, path];
  for (const part of parts) expect(statSync(part).size).toBeLessThanOrEqual(128 * 1024);
  const text = parts.map((part) => readFileSync(part, 'utf8')).join('');
  expect(text.endsWith(`${'199'.padEnd(9999, '.')}\n`)).toBe(true);
  expect(existsSync(`${path}.4`)).toBe(false);
});

test('on a full disk a log and its generations stay as they are, nothing half-copied stays behind, and later it is moved', () => {
  const path = join(directory, 'full.log');
  const text = Array.from({ length: 40_000 }, (_, i) => `${i}\n`).join('');
  writeFileSync(path, text);
  writeFileSync(`${path}.1`, 'the one before');
  // Writes there fail: no space is left.
  symlinkSync('/dev/full', `${path}.new`);
  const ways = [process.env['PATH'] ?? '', ''];
  for (const tools of ways) {
    vi.stubEnv('PATH', tools);
    expect(() => rotateLog(path, 100_000)).toThrow(/ENOSPC/);
    expect([readFileSync(path, 'utf8') === text, readFileSync(`${path}.1`, 'utf8')]).toEqual([true, 'the one before']);
    expect(lstatSync(`${path}.new`, { throwIfNoEntry: false })).toBeUndefined();
    symlinkSync('/dev/full', `${path}.new`);
  }
  vi.unstubAllEnvs();
  rmSync(`${path}.new`);
  expect(rotateLog(path, 100_000)).toBe(true);
  const kept = [`${path}.3`, `${path}.2`, `${path}.1`, path]
    .filter((part) => existsSync(part))
    .map((part) => readFileSync(part, 'utf8'))
    .join('');
  expect(kept.endsWith(text.slice(-50_000))).toBe(true);
});
