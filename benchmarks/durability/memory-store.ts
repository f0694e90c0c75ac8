/** A store in memory: it answers like the durable one, and its content is lost when the process ends. */

import { createHash } from 'node:crypto';
import type { Execution, Lease, RolloutEvent, Store } from '../../store/store.ts';
import type { ObjectRef } from '../../protocol/stages.ts';

/** The prefix by which one attempt's records are listed: an index by it avoids a scan of all records. */
const folderOf = (key: string): string => key.slice(0, key.lastIndexOf('/') + 1);

export class MemoryStore implements Store {
  readonly #results = new Map<string, unknown>();
  readonly #folders = new Map<string, Set<string>>();
  readonly #objects = new Map<ObjectRef, Uint8Array>();
  readonly #events: RolloutEvent[] = [];
  readonly #executions: Execution[] = [];
  readonly #begun = new Map<string, number>();
  readonly #leases = new Map<string, Lease>();

  async putOnce<T>(key: string, value: T): Promise<T> {
    if (this.#results.has(key)) return this.#results.get(key) as T;
    this.#results.set(key, value);
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
    const ref: ObjectRef = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    this.#objects.set(ref, bytes);
    return ref;
  }

  async putOnceWithObject<T>(key: string, bytes: Uint8Array, valueOf: (ref: ObjectRef) => T): Promise<T> {
    return this.putOnce(key, valueOf(await this.putObject(bytes)));
  }

  async getObject(ref: ObjectRef): Promise<Uint8Array> {
    const bytes = this.#objects.get(ref);
    if (!bytes) throw new Error(`Object ${ref} is not in the store`);
    return bytes;
  }

  async append(events: readonly RolloutEvent[]): Promise<void> {
    this.#events.push(...events);
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
    return Object.fromEntries(
      [...this.#begun]
        .filter(([, count]) => count > 1)
        .map(([key, count]) => [key.slice(0, key.indexOf(':')), count - 1]),
    );
  }

  async executions(after: number): Promise<Execution[]> {
    return this.#executions.slice(after);
  }

  async acquireLease(lease: Lease): Promise<Lease | undefined> {
    this.#leases.set(lease.id, lease);
    return lease;
  }

  async acquireLeases(leases: readonly Lease[]): Promise<boolean> {
    for (const lease of leases) this.#leases.set(lease.id, lease);
    return true;
  }

  async releaseLease(id: string): Promise<void> {
    this.#leases.delete(id);
  }

  async leases(kind: string): Promise<Lease[]> {
    return [...this.#leases.values()].filter((lease) => lease.kind === kind);
  }

  async close(): Promise<void> {
    this.#results.clear();
    this.#folders.clear();
  }
}
