/**
 * `node test/store/measure-checksums.ts`: processor time of the store's reads and writes, and of their checksums, for
 * records of a turn with 100 and with 1,000 tokens, and for events. One JSON document on stdout.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { damageOf, type EventRow, recordSum, type ResultRow, checksumOfAll } from '../../store/checked-rows.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';

const ROWS = 2_000;
const ROUNDS = 10;

/** Processor time of `work` for each row, in microseconds. `work` processes all rows this many times. */
async function microseconds(rounds: number, work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  for (let round = 0; round < rounds; round += 1) await work();
  const { user, system } = process.cpuUsage(before);
  return Number(((user + system) / (rounds * ROWS)).toFixed(2));
}

const keyOf = (i: number): string => `generate:train/run/step-1/swe-mini-train-${i}/0#1/00001`;

function turnOf(tokens: number, i: number) {
  const ids = Array.from({ length: tokens }, (_, k) => (k * 7 + i) % 1600);
  return {
    version: 1,
    appended: ids.slice(0, tokens / 2),
    reset: false,
    sampled: ids.slice(tokens / 2),
    logprobs: ids.slice(tokens / 2).map((id) => -(Math.sin(id + 1) ** 2)),
    temperature: 1,
    end: 'stop',
  };
}

async function ofTurns(tokens: number) {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-checksums-'));
  const store = openSqliteStore(dir);
  const turns = Array.from({ length: ROWS }, (_, i) => turnOf(tokens, i));
  const write = await microseconds(1, async () => {
    for (const [i, turn] of turns.entries()) await store.putOnce(keyOf(i), turn);
  });
  const read = await microseconds(ROUNDS, async () => {
    for (let i = 0; i < ROWS; i += 1) await store.get(keyOf(i));
  });
  await store.close();
  rmSync(dir, { recursive: true });
  const rows = turns.map((turn, i): ResultRow => {
    const value = JSON.stringify(turn);
    const at = '2026-01-01T00:00:00.000Z';
    return { key: keyOf(i), at, value, sum: recordSum(keyOf(i), at, value) };
  });
  const check = await microseconds(ROUNDS, () => rows.every((row) => damageOf(row) === undefined));
  return { tokens, bytes: rows[0]?.value.length, read, write, check, shareOfRead: Number((check / read).toFixed(3)) };
}

async function ofEvents() {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-checksums-'));
  const store = openSqliteStore(dir);
  const events = Array.from({ length: ROWS }, (_, i) => ({
    run: 'run',
    rollout: `train/run/step-1/swe-mini-train-${i}/0`,
    attempt: 1,
    event: 'turn' as const,
    at: '2026-01-01T00:00:00.000Z',
    detail: '1',
  }));
  await store.append(events);
  const read = await microseconds(ROUNDS, () => store.events('run'));
  await store.close();
  rmSync(dir, { recursive: true });
  const rows = events.map((event, seq): EventRow => ({
    seq,
    ...event,
    sum: checksumOfAll([event.run, event.rollout, event.attempt, event.event, event.at, event.detail]),
  }));
  const check = await microseconds(ROUNDS, () => rows.every((row) => damageOf(row) === undefined));
  return { read, check, shareOfRead: Number((check / read).toFixed(3)) };
}

const turns = [await ofTurns(100), await ofTurns(1_000)];
process.stdout.write(
  `${JSON.stringify({ unit: 'microseconds of the processor a row', turns, events: await ofEvents() }, null, 2)}\n`,
);
