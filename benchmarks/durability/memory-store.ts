/** A store in memory: it answers like the durable one, and its content is lost when the process ends. */

import { randomUUID } from 'node:crypto';
import { refOf } from '../../store/checked-rows.ts';
import { StoreCorrupt } from '../../store/disk-errors.ts';
import {
  type ChangedRecord,
  type Changes,
  type Execution,
  FORGOTTEN_AFTER_MS,
  type Lease,
  type LeaseRoom,
  type RolloutEvent,
  type Store,
  type WorkerReport,
} from '../../store/store.ts';
import type { ObjectRef } from '../../protocol/stages.ts';

/** The prefix by which one attempt's records are listed: an index by it avoids a scan of all records. */
const folderOf = (key: string): string => key.slice(0, key.lastIndexOf('/') + 1);

/** Identity, records, events, executions. */
type Place = readonly [string, number, number, number];

export class MemoryStore implements Store {
  readonly #identity = randomUUID();
  readonly #results = new Map<string, unknown>();
  readonly #folders = new Map<string, Set<string>>();
  readonly #objects = new Map<ObjectRef, Uint8Array>();
  readonly #events: RolloutEvent[] = [];
  readonly #executions: Execution[] = [];
  readonly #begun = new Map<string, number>();
  readonly #leases = new Map<string, Lease>();
  readonly #reported = new Set<string>();
  readonly #written: ChangedRecord[] = [];
  readonly #workers = new Map<string, WorkerReport>();

  async putOnce<T>(key: string, value: T): Promise<T> {
    if (this.#results.has(key)) return this.#results.get(key) as T;
    if (value === undefined) throw new TypeError(`Result ${key} is undefined; give null instead`);
    this.#results.set(key, value);
    this.#written.push({ key, at: new Date().toISOString(), value });
    const folder = folderOf(key);
    const names = this.#folders.get(folder) ?? new Set();
    this.#folders.set(folder, names.add(key));
    return value;
  }

  async get<T>(key: string): Promise<T | undefined> {
    return this.#results.get(key) as T | undefined;
  }

  async list<T>(prefix: string): Promise<Array<{ key: string; value: T }>> {
    const folders = [...this.#folders].filter(([folder]) => folder.startsWith(prefix) || prefix.startsWith(folder));
    const keys = folders.flatMap(([, names]) => [...names]);
    const found = keys.filter((key) => key.startsWith(prefix)).sort((a, b) => (a < b ? -1 : 1));
    return found.map((key) => ({ key, value: this.#results.get(key) as T }));
  }

  async putObject(bytes: Uint8Array): Promise<ObjectRef> {
    const ref = refOf(bytes);
    this.#objects.set(ref, bytes);
    return ref;
  }

  async putOnceWithObject<T>(key: string, bytes: Uint8Array, valueOf: (ref: ObjectRef) => T): Promise<T> {
    const known = await this.get<T>(key);
    return known ?? this.putOnce(key, valueOf(await this.putObject(bytes)));
  }

  async getObject(ref: ObjectRef): Promise<Uint8Array> {
    const bytes = this.#objects.get(ref);
    if (!bytes) throw new StoreCorrupt('', `the object ${ref} is missing`, { key: ref });
    return bytes;
  }

  async append(events: readonly RolloutEvent[]): Promise<void> {
    for (const event of events) {
      const { rollout, attempt, event: name, detail = '' } = event;
      const report = JSON.stringify([rollout, attempt, name, detail]);
      if (!this.#reported.has(report)) this.#events.push(event);
      this.#reported.add(report);
    }
  }

  async events(run: string): Promise<RolloutEvent[]> {
    return this.#events.filter((event) => event.run === run);
  }

  async eventsSince(run: string, after: number): Promise<{ events: RolloutEvent[]; last: number }> {
    return { events: this.#events.slice(after).filter((event) => event.run === run), last: this.#events.length };
  }

  async begin(key: string): Promise<number> {
    const count = (this.#begun.get(key) ?? 0) + 1;
    this.#begun.set(key, count);
    this.#executions.push({ seq: this.#executions.length + 1, key, at: new Date().toISOString() });
    return count;
  }

  async begun(key: string): Promise<number> {
    return this.#begun.get(key) ?? 0;
  }

  async repeats(): Promise<Record<string, number>> {
    const repeated: Record<string, number> = {};
    for (const [key, count] of this.#begun) {
      const kind = key.slice(0, key.indexOf(':'));
      repeated[kind] = (repeated[kind] ?? 0) + count - 1;
    }
    return repeated;
  }

  async executions(after: number): Promise<Execution[]> {
    return this.#executions.slice(after);
  }

  async acquireLease(lease: Lease, limit: number): Promise<Lease | undefined> {
    const isTaken = await this.acquireLeases([lease], { leases: limit, memoryMiB: Number.MAX_SAFE_INTEGER });
    return isTaken ? lease : undefined;
  }

  async acquireLeases(leases: readonly Lease[], room: LeaseRoom): Promise<boolean> {
    const ids = new Set(leases.map(({ id }) => id));
    const others = [...this.#leases.values()].filter(
      ({ id, kind, host, expiresAt }) =>
        !ids.has(id) && kind === leases[0]?.kind && host === leases[0].host && expiresAt > Date.now(),
    );
    const claimed = [...others, ...leases].reduce((sum, { memoryMiB = 0 }) => sum + memoryMiB, 0);
    if (others.length + leases.length > room.leases || claimed > room.memoryMiB) return false;
    for (const lease of leases) {
      const memoryMiB = Math.max(lease.memoryMiB ?? 0, this.#leases.get(lease.id)?.memoryMiB ?? 0);
      this.#leases.set(lease.id, { ...lease, ...(memoryMiB > 0 && { memoryMiB }) });
    }
    return true;
  }

  async releaseLease(id: string): Promise<void> {
    this.#leases.delete(id);
  }

  async leases(kind: string): Promise<Lease[]> {
    return [...this.#leases.values()].filter((lease) => lease.kind === kind).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  async changes(cursor: string | undefined, limit: number, kinds: readonly string[]): Promise<Changes | undefined> {
    const [identity, r, e, x] = cursor === undefined ? [this.#identity, 0, 0, 0] : (JSON.parse(cursor) as Place);
    if (identity !== this.#identity) return undefined;
    const records = this.#written
      .slice(r, r + limit)
      .map(({ value, ...record }) => ({
        ...record,
        ...(kinds.includes(record.key.slice(0, record.key.indexOf(':'))) ? { value } : {}),
      }));
    const events = this.#events.slice(e, e + limit);
    const executions = this.#executions.slice(x, x + limit);
    const place: Place = [identity, r + records.length, e + events.length, x + executions.length];
    const more = [records, events, executions].some((rows) => rows.length === limit);
    return { records, events, executions, damaged: [], cursor: JSON.stringify(place), more };
  }

  async reportWorker(report: WorkerReport): Promise<void> {
    for (const { id, seen } of this.#workers.values())
      if (Date.parse(seen) < Date.parse(report.seen) - FORGOTTEN_AFTER_MS) this.#workers.delete(id);
    this.#workers.set(report.id, report);
  }

  async removeWorker(id: string): Promise<void> {
    this.#workers.delete(id);
  }

  async workers(): Promise<WorkerReport[]> {
    return [...this.#workers.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  async close(): Promise<void> {
    this.#results.clear();
    this.#folders.clear();
  }
}
