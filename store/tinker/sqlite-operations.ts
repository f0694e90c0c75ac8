/** Operations and results of the journal's file: acceptance, order, first results. Everything here is synchronous. */

import type { TinkerOperation, TinkerResult } from '../../protocol/tinker.ts';
import { laneName } from '../../protocol/tinker-lanes.ts';
import { StoreCorrupt } from '../disk-errors.ts';
import { decode, encode, sumOf } from './codec.ts';
import type { JournalDb } from './journal-db.ts';
import {
  type AcceptedOperation,
  OperationConflict,
  type TinkerFuture,
  type TinkerWaiting,
  type WaitingOperation,
} from './journal.ts';
import type { JournalRecords } from './sqlite-records.ts';
import type { FinishedOperation, WaitingSample } from './work.ts';

type Row = Readonly<Record<string, unknown>>;

/** An operation as it is written: made outside of the transaction. */
export interface NewOperation {
  readonly requestId: string;
  readonly tenant: string;
  readonly lane: string;
  readonly seq: number | undefined;
  readonly digest: string;
  readonly kind: TinkerOperation['kind'];
  /** Of the checkpoint that it reads. */
  readonly path: string | undefined;
  readonly at: string;
  readonly body: Uint8Array;
}

export interface Accepted extends AcceptedOperation {
  /** The base, if nobody holds the lane of the work: it must be woken. */
  readonly wake?: { readonly base: string };
}

const COLUMNS = 'request, tenant, lane, number, at, path, reads, sum, body';
/** They change a model: a rebuild runs them again. */
const CHANGES = `('create_model', 'load_weights', 'pass', 'optim_step')`;

const keyOf = (request: string) => `operation ${request}`;

export function newOperation(
  requestId: string,
  given: { tenant: string; lane: string; seq: number | undefined; digest: string; operation: TinkerOperation },
): NewOperation {
  const { operation, ...rest } = given;
  const path = operation.kind === 'load_weights' ? operation.path : undefined;
  return { ...rest, requestId, kind: operation.kind, path, at: new Date().toISOString(), body: encode(operation) };
}

/** Operations of a list, as long as their bodies have room; the first one in any case. */
export function withinBytes<T extends { readonly size: number }>(rows: Iterable<T>, bytes: number): T[] {
  const taken: T[] = [];
  let sum = 0;
  for (const row of rows) {
    sum += row.size;
    if (taken.length > 0 && sum > bytes) break;
    taken.push(row);
  }
  return taken;
}

export class JournalOperations {
  readonly #db: JournalDb;
  readonly #records: JournalRecords;

  constructor(db: JournalDb, records: JournalRecords) {
    this.#db = db;
    this.#records = records;
  }

  known(lane: string, seq: number, digest: string): Accepted | undefined {
    const row = this.#db
      .sql('SELECT request FROM operations WHERE lane = ? AND number = ? AND digest = ?')
      .get(lane, seq, digest);
    return row && { requestId: String(row['request']), repeated: true };
  }

  /** Errors: `OperationConflict`. */
  accept(operation: NewOperation): Accepted {
    const { requestId, tenant, lane, digest, kind, at, body } = operation;
    const seq = operation.seq ?? this.#nextSeq(lane);
    const known = this.#db.sql('SELECT request, digest FROM operations WHERE lane = ? AND number = ?').get(lane, seq);
    if (known !== undefined) {
      if (known['digest'] === digest) return { requestId: String(known['request']), repeated: true };
      throw new OperationConflict(
        `request ${seq} of ${lane} was accepted before with another body: give the next number to a new request`,
      );
    }
    const { base, path, holder } = this.#placeOf(lane, kind);
    const wanted = operation.path ?? path;
    const reads = wanted === undefined ? undefined : this.#records.checkpoint(wanted)?.dir;
    this.#db
      .sql(
        `INSERT INTO operations (request, tenant, lane, number, sampling, base, digest, kind, path, reads, at, bytes, sum, body)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        requestId,
        tenant,
        lane,
        seq,
        kind === 'sample' ? 1 : 0,
        base,
        digest,
        kind,
        wanted ?? null,
        reads ?? null,
        at,
        body.byteLength,
        sumOf([requestId, lane, seq], body),
        body,
      );
    this.#opened(lane);
    if (kind !== 'sample') this.#db.sql('UPDATE models SET used = max(used, ?) WHERE id = ?').run(at, lane);
    const held = this.#db.sql('SELECT 1 FROM lanes WHERE lane = ? AND expires > ?').get(holder, Date.now());
    return { requestId, repeated: false, ...(held === undefined && { wake: { base } }) };
  }

  /** The time of a lane in which nothing waited does not count as a standstill. */
  #opened(lane: string): void {
    this.#db
      .sql(
        `INSERT INTO lanes (lane, moved) VALUES (?, ?) ON CONFLICT (lane) DO UPDATE SET moved = excluded.moved
         WHERE (SELECT count(*) FROM (SELECT 1 FROM operations WHERE lane = ? AND finished = 0 LIMIT 2)) <= 1`,
      )
      .run(lane, Date.now(), lane);
  }

  /** Errors: an `Error` if neither model nor sampler was put. */
  #placeOf(lane: string, kind: TinkerOperation['kind']): { base: string; path: string | undefined; holder: string } {
    if (kind !== 'sample') {
      const base = this.#records.model(lane)?.baseModel;
      if (base !== undefined) return { base, path: undefined, holder: lane };
    } else {
      const sampler = this.#records.sampler(lane);
      if (sampler !== undefined) {
        const base = sampler.baseModel;
        return { base, path: sampler.path, holder: laneName({ what: 'sampling', base }) };
      }
    }
    throw new Error(`The Tinker journal has no ${kind === 'sample' ? 'sampler' : 'model'} ${lane}: put it first`);
  }

  future(request: string, tenant: string): TinkerFuture | undefined {
    const row = this.#db
      .sql('SELECT lane, kind, finished FROM operations WHERE request = ? AND tenant = ?')
      .get(request, tenant);
    if (row === undefined) return undefined;
    const lane = String(row['lane']);
    if (row['finished'] === 0) return { state: 'waiting', lane };
    const result = this.result(request);
    const operation = String(row['kind']) as TinkerOperation['kind'];
    return result && { state: 'finished', lane, operation, result };
  }

  /** One more than the highest number that the lane has accepted; 0 if there is none. */
  #nextSeq(lane: string): number {
    return Number(this.#db.sql('SELECT max(number) AS n FROM operations WHERE lane = ?').get(lane)?.['n'] ?? -1) + 1;
  }

  finishedOf(lane: string, cursor: number, limit: number) {
    return this.#db
      .sql('SELECT seq, request, failed FROM results WHERE lane = ? AND seq > ? ORDER BY seq LIMIT ?')
      .all(lane, cursor, limit)
      .map(({ seq, request, failed }) => ({ requestId: String(request), failed: failed === 1, cursor: Number(seq) }));
  }

  /** `undefined`: there is none, or it was removed. */
  result(request: string): TinkerResult | undefined {
    const row = this.#db.sql('SELECT sum, body FROM results WHERE request = ? AND body IS NOT NULL').get(request);
    if (row === undefined) return undefined;
    this.#db.check(`result ${request}`, [request], row['body'], row['sum']);
    return decode<TinkerResult>(row['body'] as Uint8Array);
  }

  #operation(row: Row): WaitingOperation {
    const [requestId, lane, seq] = [String(row['request']), String(row['lane']), Number(row['number'])];
    this.#db.check(keyOf(requestId), [requestId, lane, seq], row['body'], row['sum']);
    return {
      requestId,
      tenant: String(row['tenant']),
      lane,
      seq,
      operation: decode<TinkerOperation>(row['body'] as Uint8Array),
      acceptedAt: String(row['at']),
      ...(typeof row['reads'] === 'string' && { reads: row['reads'] }),
    };
  }

  #bodyOf(request: string): Row {
    const row = this.#db.sql(`SELECT ${COLUMNS} FROM operations WHERE request = ?`).get(request);
    if (row !== undefined && row['body'] !== null) return row;
    throw new StoreCorrupt(this.#db.dir, `the body of ${keyOf(request)} is missing`, { key: keyOf(request) });
  }

  /** Requests that may run, in order, with the sizes of their bodies. */
  #runnable(lane: string, limit: number): Array<{ request: string; size: number }> {
    const head = this.#db.sql('SELECT next FROM lanes WHERE lane = ?').get(lane);
    const rows = this.#db
      .sql(
        `SELECT request, number, sampling, bytes, finished FROM operations
         WHERE lane = ? AND number >= ? AND (sampling = 0 OR finished = 0) ORDER BY number LIMIT ?`,
      )
      .all(lane, Number(head?.['next'] ?? 0), limit);
    const found: Array<{ request: string; size: number }> = [];
    let next = Number(head?.['next'] ?? 0);
    for (const { request, number, sampling, bytes, finished } of rows) {
      if (sampling === 0 && Number(number) !== next) break;
      next = Number(number) + 1;
      if (finished === 0) found.push({ request: String(request), size: Number(bytes) });
    }
    return found;
  }

  waiting(lane: string, limit: number, bytes: number): WaitingOperation[] {
    return withinBytes(this.#runnable(lane, limit), bytes).map(({ request }) => this.#operation(this.#bodyOf(request)));
  }

  waitingOf(tenant: string): TinkerWaiting {
    const sql = `SELECT count(*) - total(sampling) AS n, total(bytes * (1 - sampling)) AS bytes,
      total(sampling) AS samples, total(bytes * sampling) AS sampleBytes FROM operations WHERE tenant = ? AND finished = 0`;
    const row = this.#db.sql(sql).get(tenant) as { n: number; bytes: number; samples: number; sampleBytes: number };
    const { n, bytes, samples, sampleBytes } = row;
    return { waitingOperations: n, waitingBytes: bytes, waitingSamples: samples, waitingSampleBytes: sampleBytes };
  }

  hasRunnable(lane: string): boolean {
    return this.#runnable(lane, 1).length > 0;
  }

  hasSamples(base: string, except: readonly string[] = [], served: readonly string[] = []): boolean {
    const sql = `SELECT 1 FROM operations WHERE finished = 0 AND sampling = 1 AND base = ?
      AND request NOT IN (SELECT value FROM json_each(?)) AND tenant NOT IN (SELECT value FROM json_each(?)) LIMIT 1`;
    return this.#db.sql(sql).get(base, JSON.stringify(except), JSON.stringify(served)) !== undefined;
  }

  /** Every tenant's first one comes before any tenant's second one. */
  waitingSamples(
    base: string,
    limit: number,
    except: readonly string[],
    served: readonly string[] = [],
  ): WaitingSample[] {
    const rows = this.#db
      .sql(
        `SELECT request, bytes FROM (
           SELECT request, seq, bytes, row_number() OVER (PARTITION BY tenant ORDER BY seq) AS place FROM operations
           WHERE finished = 0 AND sampling = 1 AND base = ? AND request NOT IN (SELECT value FROM json_each(?))
           AND tenant NOT IN (SELECT value FROM json_each(?)))
         ORDER BY place, seq LIMIT ?`,
      )
      .all(base, JSON.stringify(except), JSON.stringify(served), limit);
    return rows.map(({ request }) => {
      const row = this.#bodyOf(String(request));
      const operation = this.#operation(row);
      const { path } = row;
      return typeof path === 'string' ? { ...operation, adapter: { path, dir: operation.reads } } : operation;
    });
  }

  /** Lanes that can move, the one with the oldest operation first. */
  busyLanes(kind: 'model' | 'sampler', limit: number): string[] {
    const rows = this.#db
      .sql('SELECT lane FROM operations WHERE finished = 0 AND sampling = ? GROUP BY lane ORDER BY min(seq)')
      .all(kind === 'model' ? 0 : 1);
    const found: string[] = [];
    for (const { lane } of rows) {
      if (found.length >= limit) break;
      if (kind === 'sampler' || this.hasRunnable(String(lane))) found.push(String(lane));
    }
    return found;
  }

  /** The first result counts, and is returned with whether it was this one. `body`: the encoded result. */
  finish(
    request: string,
    result: TinkerResult,
    body: Uint8Array,
  ): { readonly result: TinkerResult; readonly isFirst: boolean } {
    const row = this.#db.sql('SELECT lane, sampling, finished FROM operations WHERE request = ?').get(request);
    if (row === undefined) throw new Error(`The Tinker journal has no request ${request}`);
    if (row['finished'] !== 0) return { result: this.result(request) ?? result, isFirst: false };
    this.#db
      .sql('INSERT INTO results (request, lane, at, failed, sum, body) VALUES (?, ?, ?, ?, ?, ?)')
      .run(
        request,
        String(row['lane']),
        new Date().toISOString(),
        result.kind === 'failed' ? 1 : 0,
        sumOf([request], body),
        body,
      );
    this.#db.sql('UPDATE operations SET finished = 1 WHERE request = ?').run(request);
    this.#db.sql('DELETE FROM executions WHERE key = ?').run(request);
    this.#moved(String(row['lane']), row['sampling'] === 0);
    return { result, isFirst: true };
  }

  #moved(lane: string, isOrdered: boolean): void {
    this.#db.sql('UPDATE lanes SET moved = ? WHERE lane = ?').run(Date.now(), lane);
    if (!isOrdered) return;
    const finished = this.#db.sql('SELECT 1 FROM operations WHERE lane = ? AND number = ? AND finished = 1');
    const from = Number(this.#db.sql('SELECT next FROM lanes WHERE lane = ?').get(lane)?.['next'] ?? 0);
    let next = from;
    while (finished.get(lane, next) !== undefined) next += 1;
    if (next > from) this.#db.sql('UPDATE lanes SET next = ? WHERE lane = ?').run(next, lane);
  }

  /** Requests without a result, in a lane or of a base's samplers. */
  open(where: { readonly lane: string } | { readonly base: string }): string[] {
    const rows =
      'lane' in where
        ? this.#db.sql('SELECT request FROM operations WHERE finished = 0 AND lane = ? ORDER BY number').all(where.lane)
        : this.#db
            .sql('SELECT request FROM operations WHERE finished = 0 AND sampling = 1 AND base = ? ORDER BY seq')
            .all(where.base);
    return rows.map(({ request }) => String(request));
  }

  applied(model: string, after: number, bytes: number): FinishedOperation[] {
    const rows = this.#db
      .sql(
        `SELECT o.request, o.bytes AS size FROM operations o JOIN results r ON r.request = o.request
         WHERE o.lane = ? AND o.number > ? AND r.failed = 0 AND o.kind IN ${CHANGES} ORDER BY o.number LIMIT 256`,
      )
      .all(model, after) as unknown as Array<{ request: string; size: number }>;
    return withinBytes(rows, bytes).map(({ request }) => {
      const result = this.result(request) ?? { kind: 'done' };
      return { ...this.#operation(this.#bodyOf(request)), result };
    });
  }
}
