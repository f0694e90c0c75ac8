/**
 * The journal of the Tinker API in one SQLite file, for the server and the workers of a host. What is accepted or
 * finished is on the disk before its promise resolves; the first result of a request counts, whichever process writes
 * it.
 */

import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { classifyDiskError, StoreCorrupt } from '../disk-errors.ts';
import type { Patience } from '../disk-patience.ts';
import { STORE_VARIABLE, storeFolder } from '../open-store.ts';
import { encode } from './codec.ts';
import { JournalChanges, modelKey, resultKey, samplingKey } from './journal-changes.ts';
import { JournalDb } from './journal-db.ts';
import type { TinkerJournal } from './journal.ts';
import { JournalHolds } from './sqlite-holds.ts';
import { type Accepted, JournalOperations, newOperation } from './sqlite-operations.ts';
import { JournalRecords } from './sqlite-records.ts';
import { JournalRetention, removeDir, type Retention, RETENTION } from './sqlite-retention.ts';
import type { Finish, LaneHold, ModelState, TinkerWork } from './work.ts';

/** The most bytes of bodies that one call of `waiting` reads. */
const READ_BYTES = 64 * 2 ** 20;

/** A request's id in the key of a damaged row. */
const OPERATION = 'operation ';

/** A base's name in what `laneName` gives for its samples. */
const SAMPLING = 'sampling:';

export class SqliteJournal implements TinkerJournal, TinkerWork {
  readonly dir: string;
  readonly #db: JournalDb;
  readonly #records: JournalRecords;
  readonly #operations: JournalOperations;
  readonly #holds: JournalHolds;
  readonly #retention: JournalRetention;
  readonly #changes: JournalChanges;

  constructor(dir: string, patience: Patience | undefined, retention: Retention = RETENTION) {
    this.dir = dir;
    this.#db = new JournalDb(dir, patience);
    const records = new JournalRecords(this.#db);
    const operations = new JournalOperations(this.#db, records);
    const holds = new JournalHolds(this.#db, records);
    [this.#records, this.#operations, this.#holds] = [records, operations, holds];
    this.#retention = new JournalRetention(this.#db, { records, operations, holds }, retention);
    this.#changes = new JournalChanges(this.#db);
  }

  #under<T>(hold: LaneHold, work: () => T): Promise<T> {
    return this.#db.write(() => {
      this.#holds.check(hold);
      return work();
    });
  }

  putBase = (name: string, dir: string) => this.#db.write(() => this.#records.putBase(name, dir));
  baseDir = (name: string) => this.#db.read(() => this.#records.baseDir(name));

  putSession: TinkerJournal['putSession'] = (session) => this.#db.write(() => this.#records.putSession(session));
  session: TinkerJournal['session'] = (id) => this.#db.read(() => this.#records.session(id));
  sessions: TinkerJournal['sessions'] = (tenant, page) => this.#db.read(() => this.#records.sessions(tenant, page));
  seen: TinkerJournal['seen'] = (id, at) => this.#db.write(() => this.#records.seen(id, at));
  finishSession: TinkerJournal['finishSession'] = (id, reason) =>
    this.#db.write(() => this.#records.finishSession(id, reason));

  putModel: TinkerJournal['putModel'] = (model) => this.#db.write(() => this.#records.putModel(model));
  model: TinkerJournal['model'] = (id) => this.#db.read(() => this.#records.model(id));
  models: TinkerJournal['models'] = (tenant) => this.#db.read(() => this.#records.models(tenant));

  putSampler: TinkerJournal['putSampler'] = (sampler) => this.#db.write(() => this.#records.putSampler(sampler));
  sampler: TinkerJournal['sampler'] = (id) => this.#db.read(() => this.#records.sampler(id));
  samplers: TinkerJournal['samplers'] = (session) => this.#db.read(() => this.#records.samplers(session));

  checkpoint: TinkerJournal['checkpoint'] = (path) => this.#db.read(() => this.#records.checkpoint(path));
  checkpoints: TinkerJournal['checkpoints'] = (tenant, run) =>
    this.#db.read(() => this.#records.checkpoints(tenant, run));
  deleteCheckpoint: TinkerJournal['deleteCheckpoint'] = (path) =>
    this.#db.write(() => this.#records.deleteCheckpoint(path));
  setCheckpoint: TinkerJournal['setCheckpoint'] = (path, change) =>
    this.#db.write(() => this.#records.setCheckpoint(path, change));
  waitingOf: TinkerJournal['waitingOf'] = (tenant) => this.#db.read(() => this.#operations.waitingOf(tenant));
  counts: TinkerJournal['counts'] = (tenant) => this.#db.read(() => this.#records.counts(tenant));

  accept(given: Parameters<TinkerJournal['accept']>[0]): Promise<Accepted> {
    const operation = newOperation(randomUUID(), given);
    return this.#db.write(() => this.#operations.accept(operation));
  }

  known: TinkerJournal['known'] = (lane, seq, digest) => this.#db.read(() => this.#operations.known(lane, seq, digest));
  finishedOf: TinkerJournal['finishedOf'] = (lane, cursor, limit) =>
    this.#db.read(() => this.#operations.finishedOf(lane, cursor, limit));
  future: TinkerJournal['future'] = (id, tenant) => this.#db.read(() => this.#operations.future(id, tenant));

  async waitFor(...[id, tenant, milliseconds, signal]: Parameters<TinkerJournal['waitFor']>) {
    const finished = async () => {
      const future = await this.future(id, tenant);
      return future?.state === 'waiting' ? undefined : { future };
    };
    const done = await this.#changes.until([resultKey(id)], milliseconds, signal, finished);
    return done === undefined ? this.future(id, tenant) : done.future;
  }

  waiting: TinkerJournal['waiting'] = (lane, limit) =>
    this.#db.read(() => this.#operations.waiting(lane, limit, READ_BYTES));
  waitingIn: TinkerWork['waitingIn'] = (lane, limit, bytes) =>
    this.#unlessDamaged(() => this.#operations.waiting(lane, limit, bytes));
  waitingSamples: TinkerWork['waitingSamples'] = (base, limit, except, served) =>
    this.#unlessDamaged(() => this.#operations.waitingSamples(base, limit, except, served));

  /** A damaged operation fails alone: nobody can run it, and what waits beside it would wait for ever. */
  async #unlessDamaged<T>(read: () => T): Promise<T> {
    for (;;) {
      try {
        return await this.#db.read(read);
      } catch (error) {
        const key = error instanceof StoreCorrupt ? (error.key ?? '') : '';
        if (!key.startsWith(OPERATION)) throw error;
        const request = key.slice(OPERATION.length);
        await this.#db.write(() => this.#fail([request], 'the request is damaged on the disk of the server'));
      }
    }
  }

  busyLanes: TinkerJournal['busyLanes'] = (kind, limit) => this.#db.read(() => this.#operations.busyLanes(kind, limit));

  async untilWork(...[lane, milliseconds, signal]: Parameters<TinkerWork['untilWork']>): Promise<void> {
    const key = 'model' in lane ? modelKey(lane.model) : samplingKey(lane.base);
    const isDone = async () => {
      const has =
        'model' in lane
          ? this.#operations.hasRunnable(lane.model)
          : this.#operations.hasSamples(lane.base, lane.except, lane.served);
      return has ? true : undefined;
    };
    await this.#changes.until([key], milliseconds, signal, isDone);
  }

  finish: TinkerJournal['finish'] = (requestId, result, checkpoint) => {
    const body = encode(result);
    return this.#db.write(() => this.#finish({ requestId, result, ...(checkpoint && { checkpoint }) }, body));
  };

  finishIn: TinkerWork['finishIn'] = (hold, finish) => {
    const body = encode(finish.result);
    return this.#under(hold, () => this.#finish(finish, body));
  };

  #finish({ requestId, result, checkpoint, state }: Finish, body: Uint8Array) {
    const { result: kept, isFirst } = this.#operations.finish(requestId, result, body);
    if (isFirst && checkpoint !== undefined) this.#records.putCheckpoint(checkpoint);
    if (isFirst && state !== undefined) this.#holds.putState(state);
    return kept;
  }

  failWaiting: TinkerWork['failWaiting'] = (hold, message) =>
    this.#under(hold, () => {
      const { lane } = hold;
      const of = lane.startsWith(SAMPLING) ? { base: lane.slice(SAMPLING.length) } : { lane };
      return this.#fail(this.#operations.open(of), message);
    });

  #fail(requests: readonly string[], message: string): number {
    const result = { kind: 'failed', category: 'server', message } as const;
    const body = encode(result);
    for (const request of requests) this.#operations.finish(request, result, body);
    return requests.length;
  }

  pinKind: TinkerWork['pinKind'] = (lane, kind) => this.#db.write(() => this.#holds.pinKind(lane, kind));
  take: TinkerWork['take'] = (lane, owner, ms) => this.#db.write(() => this.#holds.take(lane, owner, ms));
  renew: TinkerWork['renew'] = (hold, ms) => this.#db.write(() => this.#holds.renew(hold, ms));
  release: TinkerWork['release'] = (hold) => this.#db.write(() => this.#holds.release(hold));

  leave: TinkerWork['leave'] = (hold) =>
    this.#under(hold, () => {
      const { lane } = hold;
      const isBusy = lane.startsWith(SAMPLING)
        ? this.#operations.hasSamples(lane.slice(SAMPLING.length))
        : this.#operations.hasRunnable(lane);
      if (!isBusy) this.#holds.release(hold);
      return !isBusy;
    });

  begin: TinkerWork['begin'] = (hold, keys) => this.#db.write(() => this.#holds.begin(hold, keys));
  endExecution: TinkerWork['endExecution'] = (execution, end) =>
    this.#db.write(() => this.#holds.endExecution(execution, end));
  forgetExecutions: TinkerWork['forgetExecutions'] = (key) => this.#db.write(() => this.#holds.forgetExecutions(key));

  state: TinkerWork['state'] = (model) => this.#db.read(() => this.#holds.state(model));
  putState = (hold: LaneHold, state: ModelState) => this.#under(hold, () => this.#holds.putState(state));
  ended: TinkerWork['ended'] = (model) => this.#db.read(() => this.#holds.ended(model));
  /** The model takes no more operations, and its state is removed. Errors: `LaneLost`. */
  endModel: TinkerWork['endModel'] = (hold, { requestId, result }, why) => {
    const body = encode(result);
    return this.#under(hold, () => {
      this.#holds.end(hold.lane, why);
      return this.#finish({ requestId, result }, body);
    });
  };
  applied: TinkerWork['applied'] = (model, after, bytes) =>
    this.#db.read(() => this.#operations.applied(model, after, bytes));

  /** Lanes whose work nobody does. */
  unheld = () => this.#db.read(() => this.#retention.unheld());

  /**
   * Forgets what has had its time, fails what cannot move, and removes directories that nothing reads. Returns how many
   * operations failed. Safe to run in several processes.
   */
  async keepHouse(now = Date.now()): Promise<number> {
    await this.#db.write(() => this.#retention.forget(now));
    const failed = await this.#db.write(() =>
      this.#retention
        .stalled(now)
        .map(({ lane, message }) => this.#fail(this.#operations.open({ lane }), message))
        .reduce((sum, n) => sum + n, 0),
    );
    const garbage = await this.#db.read(() => this.#retention.garbage(now));
    for (const dir of garbage) {
      await removeDir(dir);
      await this.#db.write(() => this.#retention.isRemoved(dir));
    }
    for (const dir of await this.#retention.orphans(now)) await removeDir(dir);
    return failed;
  }

  async close(): Promise<void> {
    this.#changes.close();
    // Writes that were asked for before are part of the last transaction.
    await this.#db.write(() => undefined).catch(() => undefined);
    this.#db.close();
  }
}

/** The folder of the journal, its states and checkpoints. Errors: `UserInputError` if the store is elsewhere. */
export function tinkerFolder(store: string): string {
  const folder = storeFolder(store);
  if (folder !== undefined) return join(folder, 'tinker');
  throw new UserInputError(STORE_VARIABLE, store, 'the Tinker API needs a store in a folder of this machine');
}

/** Opens the journal beside the store, or makes it. Errors: `UserInputError`; disk errors by their class. */
export function openTinkerJournal(store: string, patience?: Patience): SqliteJournal {
  const dir = tinkerFolder(store);
  try {
    return new SqliteJournal(dir, patience);
  } catch (error) {
    throw classifyDiskError(error, dir);
  }
}
