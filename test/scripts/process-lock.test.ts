/** Hunts two set-ups (or two supervisors) that run at once, and a lock that outlives its holder. */

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isAlive, ownIdentity, startTimeOf } from '../../scripts/setup/process-identity.mjs';
import { lockHolder, tryLock } from '../../scripts/setup/process-lock.mjs';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-lock-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('a held lock cannot be taken again, and is free after its release', () => {
  const path = join(directory, 'a.lock');
  const release = tryLock(path);
  expect(release).toBeDefined();
  expect(tryLock(path)).toBeUndefined();
  expect(lockHolder(path)).toMatchObject({ pid: process.pid });
  release?.();
  expect(lockHolder(path)).toBeUndefined();
  expect(tryLock(path)).toBeDefined();
});

test.each([
  ['a dead process', { pid: 2 ** 22 + 1, startTime: 'x' }],
  ['another process that got the same pid later', { pid: process.pid, startTime: 'an earlier life' }],
  ['a holder that died while it wrote', 'half a fi'],
])('a lock left by %s is taken over', (_name, content) => {
  const path = join(directory, 'a.lock');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  expect(lockHolder(path)).toBeUndefined();
  expect(tryLock(path)).toBeDefined();
  expect(lockHolder(path)).toMatchObject({ pid: process.pid });
});

test('the release of a lock that another process has taken over changes nothing', () => {
  const path = join(directory, 'a.lock');
  const release = tryLock(path);
  writeFileSync(path, JSON.stringify({ ...ownIdentity(), since: 'later' }));
  release?.();
  expect(lockHolder(path)).toMatchObject({ since: 'later' });
});

test('processes that want the lock get it one at a time', async () => {
  const counter = join(directory, 'counter');
  writeFileSync(counter, '0');
  const module = pathToFileURL(join(import.meta.dirname, '../../scripts/setup/process-lock.mjs')).href;
  const script = `
    const { withLock } = await import(${JSON.stringify(module)});
    const fs = await import('node:fs');
    for (let i = 0; i < 3; i += 1) await withLock(${JSON.stringify(join(directory, 'b.lock'))}, () => {}, async () => {
      const seen = Number(fs.readFileSync(${JSON.stringify(counter)}, 'utf8'));
      await new Promise((resolve) => setTimeout(resolve, 5));
      fs.writeFileSync(${JSON.stringify(counter)}, String(seen + 1));
    });`;
  const codes = await Promise.all(
    Array.from({ length: 4 }, () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      return new Promise((resolve) => child.on('exit', resolve));
    }),
  );
  expect(codes).toEqual([0, 0, 0, 0]);
  expect(readFileSync(counter, 'utf8')).toBe('12');
});

test('a process is alive while it runs, and not as a zombie', async () => {
  expect(isAlive(ownIdentity())).toBe(true);
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const identity = { pid: child.pid ?? 0, startTime: startTimeOf(child.pid ?? 0) ?? '' };
  expect(isAlive(identity)).toBe(true);
  const ended = new Promise((resolve) => child.on('exit', resolve));
  child.kill('SIGKILL');
  await ended;
  expect(isAlive(identity)).toBe(false);
});
