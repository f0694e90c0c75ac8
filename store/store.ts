/**
 * The store: the one place that remembers what models, tools and graders did. A result is inserted once under its
 * key and never changed; the event table is append-only; objects are named by the SHA-256 of their bytes.
 */

import type { ObjectRef } from '../protocol/stages.ts';

/** What a rollout went through, in the order of the append-only table. */
export type RolloutEventName =
  | 'dispatched'
  | 'started'
  /** A fresh sandbox took a lost one's place; `detail` counts them. */
  | 'restored'
  | 'turn'
  | 'graded'
  | 'trained'
  | 'masked'
  | 'dropped'
  | 'evaluated'
  /** Another end than the one on record was reported; `detail` says which. */
  | 'end-refused';

export interface RolloutEvent {
  readonly run: string;
  readonly rollout: string;
  readonly attempt: number;
  readonly event: RolloutEventName;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly detail?: string;
}

/** A claim on a scarce thing (a live sandbox); it ends by `release`, or at `expiresAt`. */
export interface Lease {
  readonly id: string;
  readonly kind: string;
  readonly owner: string;
  readonly host: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly detail: string;
}

/** That something began: noted before it did, whether or not it came to an end. */
export interface Execution {
  /** Grows with every execution of the store. */
  readonly seq: number;
  readonly key: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

export interface Store {
  /** Inserts `value` under `key` if nothing is there; returns what is there afterwards (the first writer wins). */
  putOnce<T>(key: string, value: T): Promise<T>;
  get<T>(key: string): Promise<T | undefined>;
  /** Results whose keys begin with `prefix`, by key in byte order. */
  list<T>(prefix: string): Promise<Array<{ readonly key: string; readonly value: T }>>;

  putObject(bytes: Uint8Array): Promise<ObjectRef>;
  /** `putObject`, and `putOnce` of what names it, in one transaction: an object that a result names is there. */
  putOnceWithObject<T>(key: string, bytes: Uint8Array, valueOf: (ref: ObjectRef) => T): Promise<T>;
  getObject(ref: ObjectRef): Promise<Uint8Array>;

  /** Appends events in one transaction. An event with the same (rollout, attempt, event, detail) is kept once. */
  append(events: readonly RolloutEvent[]): Promise<void>;
  events(run: string): Promise<RolloutEvent[]>;
  /** Those after the one that `last` of an earlier call stands for; 0: all. */
  eventsSince(run: string, after: number): Promise<{ readonly events: RolloutEvent[]; readonly last: number }>;

  /** Notes that the execution named by `key` begins; returns how often it has begun, this one included. */
  begin(key: string): Promise<number>;
  /** How often the execution named by `key` has begun. */
  begun(key: string): Promise<number>;
  /** Executions begun beyond the first, by kind (the part of the key before the first `:`). */
  repeats(): Promise<Record<string, number>>;
  /** Executions that began after the one numbered `after`, oldest first; 0 for all. */
  executions(after: number): Promise<Execution[]>;

  /** Takes or renews the lease `id`; `undefined` when `limit` leases of this kind are live on this host already. */
  acquireLease(lease: Lease, limit: number): Promise<Lease | undefined>;
  releaseLease(id: string): Promise<void>;
  leases(kind: string): Promise<Lease[]>;

  close(): Promise<void>;
}
