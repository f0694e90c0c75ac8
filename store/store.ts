/**
 * The store: it records what models, tools and graders did. A result is inserted once under its key and never changed.
 * The event table is append-only. Objects are named by the SHA-256 of their bytes.
 */

import type { ObjectRef } from '../protocol/stages.ts';

/** The events of a rollout, in the append-only table. */
export type RolloutEventName =
  | 'dispatched'
  | 'started'
  /** A fresh sandbox replaced a lost one; `detail` counts them. */
  | 'restored'
  | 'turn'
  /** A model was called; `detail` is a `Spending` as JSON. */
  | 'spent'
  | 'graded'
  | 'trained'
  | 'masked'
  | 'dropped'
  | 'evaluated'
  /** An end other than the recorded one was reported; `detail` names it. */
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

/** A claim on a limited resource (a live sandbox). It ends by `releaseLease`, or at `expiresAt`. */
export interface Lease {
  readonly id: string;
  readonly kind: string;
  readonly owner: string;
  readonly host: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly detail: string;
  /** Memory of its host that it claims. Absent: none, or what it claims already. */
  readonly memoryMiB?: number;
}

/** What a host may hold of one kind of lease. */
export interface LeaseRoom {
  readonly leases: number;
  readonly memoryMiB: number;
}

/** The start of an execution, recorded before the execution starts. It may never have ended. */
export interface Execution {
  /** Increases with each execution in the store. */
  readonly seq: number;
  readonly key: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** A record as it was written. */
export interface ChangedRecord {
  readonly key: string;
  /** ISO 8601, UTC: when it was written. */
  readonly at: string;
  /** Absent if its kind was not requested. */
  readonly value?: unknown;
}

/** A row that is not what was written. */
export interface DamagedChange {
  readonly kind: 'record' | 'event' | 'execution';
  readonly key: string;
  /** Of an event: its run. */
  readonly run?: string;
}

/** What was written after a cursor: of each kind in the order in which it was written. */
export interface Changes {
  readonly executions: readonly Execution[];
  readonly events: readonly RolloutEvent[];
  readonly records: readonly ChangedRecord[];
  readonly damaged: readonly DamagedChange[];
  /** The place after these changes. Opaque. */
  readonly cursor: string;
  /** True if there may be more. */
  readonly more: boolean;
}

/** A worker process, as it last reported itself. */
export interface WorkerReport {
  /** Unique among live workers. */
  readonly id: string;
  readonly role: string;
  readonly host: string;
  readonly pid: number;
  /** The build of its code. */
  readonly build: string;
  readonly queues: readonly string[];
  /** ISO 8601, UTC: when it started, and its last report. */
  readonly since: string;
  readonly seen: string;
}

/** A worker that has not reported for a day is removed with another worker's next report. */
export const FORGOTTEN_AFTER_MS = 86_400_000;

export interface Store {
  /** Inserts `value` under `key` if the key does not exist. Returns the stored value: the first writer wins. */
  putOnce<T>(key: string, value: T): Promise<T>;
  get<T>(key: string): Promise<T | undefined>;
  /** The results whose keys start with `prefix`, by key in byte order. */
  list<T>(prefix: string): Promise<Array<{ readonly key: string; readonly value: T }>>;

  putObject(bytes: Uint8Array): Promise<ObjectRef>;
  /** `putObject`, and `putOnce` of a result that names it, in one transaction: no result names a missing object. */
  putOnceWithObject<T>(key: string, bytes: Uint8Array, valueOf: (ref: ObjectRef) => T): Promise<T>;
  getObject(ref: ObjectRef): Promise<Uint8Array>;

  /** Appends events in one transaction. An event with the same (rollout, attempt, event, detail) is stored once. */
  append(events: readonly RolloutEvent[]): Promise<void>;
  events(run: string): Promise<RolloutEvent[]>;
  /** The events after number `after`, which is `last` of an earlier call. 0: all. */
  eventsSince(run: string, after: number): Promise<{ readonly events: RolloutEvent[]; readonly last: number }>;

  /** Records a start of the execution `key`. Returns how often it has started, including this time. */
  begin(key: string): Promise<number>;
  /** How often the execution `key` has started. */
  begun(key: string): Promise<number>;
  /** Number of repeated starts of executions, by kind (the part of the key before the first `:`). */
  repeats(): Promise<Record<string, number>>;
  /** The executions with a number above `after`, oldest first. 0: all. */
  executions(after: number): Promise<Execution[]>;

  /** Takes or renews a lease. Returns `undefined` if the host already has `limit` live leases of this kind. */
  acquireLease(lease: Lease, limit: number): Promise<Lease | undefined>;
  /**
   * Takes or renews these leases, of one kind and host, in one transaction: all, or none and returns false if the host
   * has no room for them beside its other live ones.
   */
  acquireLeases(leases: readonly Lease[], room: LeaseRoom): Promise<boolean>;
  releaseLease(id: string): Promise<void>;
  leases(kind: string): Promise<Lease[]>;

  /**
   * What was written after `cursor`, which is from an earlier call; `undefined`: everything. At most `limit` rows of
   * each kind. Values are read only of records of these `kinds` (the part of the key before the first `:`). Returns
   * `undefined` if `cursor` is of another store, or of a later state of this one: the store was restored from a copy.
   */
  changes(cursor: string | undefined, limit: number, kinds: readonly string[]): Promise<Changes | undefined>;

  /** Records or renews the sign of life of a worker. */
  reportWorker(report: WorkerReport): Promise<void>;
  removeWorker(id: string): Promise<void>;
  /** Workers that have reported within a day or so, by id. */
  workers(): Promise<WorkerReport[]>;

  close(): Promise<void>;
}
