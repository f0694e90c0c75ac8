/** Hunts logs that fill the disk, and lines that a writer loses when its log is moved away. */

import { closeSync, mkdtempSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { logTail, openLog, rotateLog } from '../../../workers/stack/log-files.ts';

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
