/** Hunts a worker that nobody knows of and nobody ends: one whose supervisor died before it wrote it down. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { watchPlace } from '../../workers/watch-place.ts';

let dir: string;
let ready: string;
let reasons: string[];
let end: () => void;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-place-'));
  ready = join(dir, 'gpu.json');
  writeFileSync(ready, JSON.stringify({ pid: process.pid }));
  reasons = [];
  end = watchPlace(ready, (reason) => reasons.push(reason), 5);
});
afterEach(() => {
  end();
  rmSync(dir, { recursive: true, force: true });
});

it('a worker whose file is its own stays, also while the file is half-written', async () => {
  writeFileSync(ready, '{"pi');
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(reasons).toEqual([]);
});

it('ends once when another process has its place', async () => {
  writeFileSync(ready, JSON.stringify({ pid: process.pid + 1 }));
  await expect.poll(() => reasons).toEqual(['another process has its place in the stack']);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(reasons).toHaveLength(1);
});

it('ends when nobody has it any more: the stack is down, or its folder gone', async () => {
  rmSync(dir, { recursive: true });
  await expect.poll(() => reasons).toEqual(['its stack is down']);
});

it('a watch that was ended says nothing', async () => {
  end();
  rmSync(ready);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(reasons).toEqual([]);
});
