/** A journal in memory, with the rules of the interface: first results count, lanes of models wait for gaps. */

import { EventEmitter, once } from 'node:events';
import { randomUUID } from 'node:crypto';
import type { TinkerResult } from '../../../protocol/tinker.ts';
import {
  OperationConflict,
  type TinkerCheckpoint,
  type TinkerFuture,
  type TinkerJournal,
  type TinkerModel,
  type TinkerSampler,
  type TinkerSession,
  type WaitingOperation,
} from '../../../store/tinker/journal.ts';

interface Entry extends WaitingOperation {
  readonly digest: string;
  result?: TinkerResult;
  at?: number;
}

export class MemoryJournal extends EventEmitter implements TinkerJournal {
  readonly sessionsById = new Map<string, TinkerSession>();
  readonly modelsById = new Map<string, TinkerModel>();
  readonly samplersById = new Map<string, TinkerSampler>();
  readonly checkpointsByPath = new Map<string, TinkerCheckpoint>();
  readonly entries = new Map<string, Entry>();
  #finished = 0;

  constructor() {
    super();
    this.setMaxListeners(0);
  }

  putSession = async (session: TinkerSession) => void this.sessionsById.set(session.id, session);
  session = async (id: string) => this.sessionsById.get(id);
  sessions = async (tenant: string, { limit, offset }: { limit: number; offset: number }) =>
    [...this.sessionsById.values()]
      .filter((one) => one.tenant === tenant && !one.id.startsWith('direct-'))
      .slice(offset, offset + limit);
  seen = async (id: string, at: string) => {
    const session = this.sessionsById.get(id);
    if (session) this.sessionsById.set(id, { ...session, seenAt: at });
  };
  finishSession = async (id: string, finished: { type: string; detail?: string }) => {
    const session = this.sessionsById.get(id);
    if (session) this.sessionsById.set(id, { ...session, finished: session.finished ?? finished });
  };

  #put<T extends { readonly id: string }>(into: Map<string, T>, one: T): T {
    const first = into.get(one.id) ?? one;
    into.set(one.id, first);
    return first;
  }
  putModel = async (model: TinkerModel) => this.#put(this.modelsById, model);
  model = async (id: string) => this.modelsById.get(id);
  models = async (tenant: string) => [...this.modelsById.values()].filter((one) => one.tenant === tenant);
  putSampler = async (sampler: TinkerSampler) => this.#put(this.samplersById, sampler);
  sampler = async (id: string) => this.samplersById.get(id);
  samplers = async (session: string) => [...this.samplersById.values()].filter((one) => one.session === session);

  checkpoint = async (path: string) => this.checkpointsByPath.get(path);
  checkpoints = async (tenant: string, run?: string) =>
    [...this.checkpointsByPath.values()].filter((one) => one.tenant === tenant && (run ?? one.run) === one.run);
  deleteCheckpoint = async (path: string) => this.checkpointsByPath.delete(path);
  setCheckpoint = async (path: string, change: { expiresAt?: string | null; public?: boolean }) => {
    const known = this.checkpointsByPath.get(path);
    if (!known) return false;
    const { expiresAt, ...rest } = known;
    const until = change.expiresAt === undefined ? expiresAt : change.expiresAt;
    this.checkpointsByPath.set(path, {
      ...rest,
      ...(until === null || until === undefined ? {} : { expiresAt: until }),
      public: change.public ?? known.public,
    });
    return true;
  };

  #lane = (lane: string) =>
    [...this.entries.values()].filter((one) => one.lane === lane).toSorted((a, b) => a.seq - b.seq);

  accept: TinkerJournal['accept'] = async ({ tenant, lane, seq: given, digest, operation }) => {
    const seq = given ?? (this.#lane(lane).at(-1)?.seq ?? -1) + 1;
    const known = this.#lane(lane).find((one) => one.seq === seq);
    if (known && known.digest !== digest) throw new OperationConflict(`${lane} ${seq}`);
    if (known) return { requestId: known.requestId, repeated: true };
    const requestId = randomUUID();
    this.entries.set(requestId, {
      requestId,
      tenant,
      lane,
      seq,
      digest,
      operation,
      acceptedAt: new Date().toISOString(),
    });
    this.emit('accepted');
    return { requestId, repeated: false };
  };
  known: TinkerJournal['known'] = async (lane, seq, digest) => {
    const found = this.#lane(lane).find((one) => one.seq === seq && one.digest === digest);
    return found && { requestId: found.requestId, repeated: true };
  };
  finishedOf: TinkerJournal['finishedOf'] = async (lane, cursor, limit) =>
    this.#lane(lane)
      .flatMap(({ requestId, result, at }) =>
        result && at !== undefined && at > cursor ? [{ requestId, failed: result.kind === 'failed', cursor: at }] : [],
      )
      .toSorted((a, b) => a.cursor - b.cursor)
      .slice(0, limit);
  waitingOf = (tenant: string) => this.counts(tenant);
  counts = async (tenant: string) => {
    const waiting = [...this.entries.values()].filter((one) => one.tenant === tenant && !one.result);
    const samples = waiting.filter(({ operation }) => operation.kind === 'sample').length;
    const sessions = [...this.sessionsById.values()].filter((one) => one.tenant === tenant && !one.finished);
    const checkpoints = await this.checkpoints(tenant);
    return {
      waitingOperations: waiting.length - samples,
      waitingBytes: 0,
      waitingSamples: samples,
      waitingSampleBytes: 0,
      sessions: sessions.length,
      models: (await this.models(tenant)).length,
      checkpoints: checkpoints.length,
      checkpointBytes: checkpoints.reduce((sum, { bytes }) => sum + bytes, 0),
    };
  };
  future = async (id: string, tenant: string): Promise<TinkerFuture | undefined> => {
    const entry = this.entries.get(id);
    if (entry?.tenant !== tenant) return undefined;
    const { lane, operation, result } = entry;
    return result ? { state: 'finished', lane, operation: operation.kind, result } : { state: 'waiting', lane };
  };
  waitFor: TinkerJournal['waitFor'] = async (id, tenant, milliseconds, signal) => {
    const until = AbortSignal.any([AbortSignal.timeout(milliseconds), ...(signal ? [signal] : [])]);
    for (;;) {
      const future = await this.future(id, tenant);
      if (future?.state !== 'waiting' || until.aborted) return future;
      await once(this, 'finished', { signal: until }).catch(() => undefined);
    }
  };

  waiting = async (lane: string, limit: number) => {
    const isModel = this.modelsById.has(lane);
    const all = this.#lane(lane);
    const first = all.findIndex((one) => !one.result);
    const runnable = all.filter((one, i) => !one.result && (!isModel || (i >= first && one.seq === i)));
    return runnable.slice(0, limit);
  };
  busyLanes = async (kind: 'model' | 'sampler', limit: number) => {
    const lanes = new Set([...this.entries.values()].filter((one) => !one.result).map((one) => one.lane));
    return [...lanes].filter((lane) => this.modelsById.has(lane) === (kind === 'model')).slice(0, limit);
  };
  finish = async (id: string, result: TinkerResult, checkpoint?: TinkerCheckpoint) => {
    const entry = this.entries.get(id);
    if (!entry) throw new Error(`no ${id}`);
    if (!entry.result) {
      entry.result = result;
      entry.at = this.#finished += 1;
      if (checkpoint) this.checkpointsByPath.set(checkpoint.path, checkpoint);
      this.emit('finished');
    }
    return entry.result;
  };
}
