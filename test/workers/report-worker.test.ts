/**
 * Hunts a registry that shows workers that are gone, misses ones that live, or harms the worker that reports itself.
 * Not asserted: how soon a report is written.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { workerLines } from '../../cli/connect/known-workers.ts';
import { openStore, sqliteUrl } from '../../store/open-store.ts';
import type { Store } from '../../store/store.ts';
import { buildOfPackage, reportWorker, SILENT_AFTER_MS, stateOfWorker } from '../../workers/report-worker.ts';

let dir: string;
let store: Store;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-workers-'));
  store = await openStore(sqliteUrl(dir));
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

const identity = { role: 'init', host: 'here', build: buildOfPackage(), queues: ['init'] };
const failing = (line: string) => expect.unreachable(line);

it('a worker is there while it lives, is seen again and again, and is gone after an orderly end', async () => {
  const end = reportWorker(store, identity, failing, 5);
  await vi.waitFor(async () => expect(await store.workers()).toHaveLength(1));
  const [first] = await store.workers();
  expect(first).toMatchObject({ ...identity, id: `here/${process.pid}`, pid: process.pid });
  await vi.waitFor(async () => expect((await store.workers())[0]!.seen > first!.seen).toBe(true));
  expect((await store.workers())[0]!.since).toBe(first!.since);
  await end();
  expect(await store.workers()).toEqual([]);
});

it('reports of killed processes of its host are removed, and no others', async () => {
  const now = new Date().toISOString();
  const killed = { ...identity, pid: 2 ** 22 + 1, since: now, seen: now };
  await store.reportWorker({ ...killed, id: 'here/killed' });
  await store.reportWorker({ ...killed, id: 'there/unknown', host: 'there' });
  const end = reportWorker(store, identity, failing);
  await vi.waitFor(async () => {
    expect((await store.workers()).map(({ id }) => id)).toEqual([`here/${process.pid}`, 'there/unknown']);
  });
  await end();
});

it('a store that cannot be written harms no worker: it is noted once, and the report follows', async () => {
  let isBroken = true;
  const broken = new Proxy(store, {
    get: (target, name: keyof Store) =>
      name === 'reportWorker' && isBroken
        ? () => Promise.reject(new Error('no room'))
        : (target[name] as () => void).bind(target),
  });
  const noted: string[] = [];
  const end = reportWorker(broken, identity, (line) => noted.push(line), 5);
  await vi.waitFor(() => expect(noted).toHaveLength(1));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(noted).toEqual([expect.stringContaining('no room')]);
  isBroken = false;
  await vi.waitFor(async () => expect(await store.workers()).toHaveLength(1));
  await end();
});

it('a worker that has not reported for a minute is silent', () => {
  const seen = '2026-01-01T00:00:00.000Z';
  const at = Date.parse(seen);
  expect([stateOfWorker({ seen }, at + SILENT_AFTER_MS), stateOfWorker({ seen }, at + SILENT_AFTER_MS + 1)]).toEqual([
    'live',
    'silent',
  ]);
  const worker = { ...identity, id: 'x', pid: 7, since: seen, seen, state: 'silent' as const };
  expect(workerLines([worker]).join('\n')).toMatch(/^WORKER .*\ninit +here +7 +silent +2026-01-01T00:00:00.000Z/);
  expect(workerLines([])).toEqual([]);
});
