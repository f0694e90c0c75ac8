/**
 * The journal of the Tinker API: sessions, models, samplers, checkpoints and operations. An operation is written before
 * it is acknowledged; its first result counts. Everything here survives the server and the workers.
 */

import type { AdapterSettings, TinkerOperation, TinkerResult } from '../../protocol/tinker.ts';

export interface TinkerSession {
  readonly id: string;
  /** Who made it: the name of an API key. Nobody else sees it, or what belongs to it. */
  readonly tenant: string;
  readonly tags: readonly string[];
  readonly userMetadata?: unknown;
  readonly displayName?: string;
  readonly projectId?: string;
  readonly createdAt: string;
  /** Last sign of life. */
  readonly seenAt: string;
  /** Set once: the first reason counts. */
  readonly finished?: { readonly type: string; readonly detail?: string };
}

export interface TinkerModel {
  /** `SESSION:train:N`; also the id of its training run. */
  readonly id: string;
  readonly session: string;
  readonly tenant: string;
  readonly baseModel: string;
  readonly adapter: AdapterSettings;
  readonly userMetadata?: unknown;
  readonly createdAt: string;
  /** Of its last request. */
  readonly usedAt: string;
}

export interface TinkerSampler {
  /** `SESSION:sample:N`. */
  readonly id: string;
  readonly session: string;
  readonly tenant: string;
  readonly baseModel: string;
  /** `tinker://…`; absent: the base. */
  readonly path?: string;
}

export interface TinkerCheckpoint {
  /** `tinker://RUN/(weights|sampler_weights)/NAME`. */
  readonly path: string;
  readonly run: string;
  readonly tenant: string;
  readonly kind: 'training' | 'sampler';
  /** The directory that holds it. */
  readonly dir: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly createdAt: string;
  readonly expiresAt?: string;
  readonly userMetadata?: unknown;
  readonly public: boolean;
}

/** An operation that waits for its result, in the order of its lane. */
export interface WaitingOperation {
  readonly requestId: string;
  readonly tenant: string;
  /** A model's id, or a sampler's. */
  readonly lane: string;
  readonly seq: number;
  readonly operation: TinkerOperation;
  readonly acceptedAt: string;
  /** The directory of the checkpoint that it reads, if there was one when it was accepted. */
  readonly reads?: string;
}

export interface AcceptedOperation {
  readonly requestId: string;
  /** True if this (lane, seq) was accepted before with the same digest: then it is the same future. */
  readonly repeated: boolean;
}

export type TinkerFuture =
  | { readonly state: 'waiting'; readonly lane: string }
  | {
      readonly state: 'finished';
      readonly lane: string;
      readonly operation: TinkerOperation['kind'];
      readonly result: TinkerResult;
    };

/** What a tenant has now, for quotas. */
export interface TinkerCounts {
  /** Of models. */
  readonly waitingOperations: number;
  /** Of the bodies of waiting operations. */
  readonly waitingBytes: number;
  readonly waitingSamples: number;
  readonly waitingSampleBytes: number;
  /** Those that are not finished. */
  readonly sessions: number;
  /** Those that take operations: not unloaded, and not of a finished session. */
  readonly models: number;
  readonly checkpoints: number;
  readonly checkpointBytes: number;
}

/** Those of `TinkerCounts` that are asked for with each request. */
export type TinkerWaiting = Pick<
  TinkerCounts,
  'waitingOperations' | 'waitingBytes' | 'waitingSamples' | 'waitingSampleBytes'
>;

/** Errors of all: `StoreUnavailable`-like failures of the disk, as of the store. */
export interface TinkerJournal {
  putSession(session: TinkerSession): Promise<void>;
  session(id: string): Promise<TinkerSession | undefined>;
  /** Those of clients: not the hidden ones (`direct-…`) for samples without a session. */
  sessions(
    tenant: string,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<readonly TinkerSession[]>;
  /** Renews `seenAt`. */
  seen(id: string, at: string): Promise<void>;
  /** The first reason counts. */
  finishSession(id: string, reason: { readonly type: string; readonly detail?: string }): Promise<void>;

  /** The first one with this id counts, and is returned. */
  putModel(model: TinkerModel): Promise<TinkerModel>;
  model(id: string): Promise<TinkerModel | undefined>;
  models(tenant: string): Promise<readonly TinkerModel[]>;

  putSampler(sampler: TinkerSampler): Promise<TinkerSampler>;
  sampler(id: string): Promise<TinkerSampler | undefined>;
  samplers(session: string): Promise<readonly TinkerSampler[]>;

  checkpoint(path: string): Promise<TinkerCheckpoint | undefined>;
  checkpoints(tenant: string, run?: string): Promise<readonly TinkerCheckpoint[]>;
  /** Its directory is removed later, when nothing reads it. False if there is none. */
  deleteCheckpoint(path: string): Promise<boolean>;
  setCheckpoint(
    path: string,
    change: { readonly expiresAt?: string | null; readonly public?: boolean },
  ): Promise<boolean>;

  /**
   * Writes an operation before it is acknowledged. `digest` names the request's body: a (lane, seq) that was accepted
   * with another digest throws `OperationConflict`. The model or sampler of the lane was put before. A model's lane
   * starts with number 0, which makes it (`create_model` or `load_weights`). Without `seq` it gets the lane's next
   * number, and is no repetition.
   */
  accept(operation: {
    readonly tenant: string;
    readonly lane: string;
    readonly seq: number | undefined;
    readonly digest: string;
    readonly operation: TinkerOperation;
  }): Promise<AcceptedOperation>;
  /** The future of this request, if it was accepted before: a repetition is not checked again. */
  known(lane: string, seq: number, digest: string): Promise<AcceptedOperation | undefined>;
  /**
   * Those of a sampler's lane that have a result, in the order in which they got it, after `cursor` (0: all). At most
   * `limit`.
   */
  finishedOf(
    lane: string,
    cursor: number,
    limit: number,
  ): Promise<ReadonlyArray<{ readonly requestId: string; readonly failed: boolean; readonly cursor: number }>>;
  counts(tenant: string): Promise<TinkerCounts>;
  future(requestId: string, tenant: string): Promise<TinkerFuture | undefined>;
  /** As `counts`, but it costs by what waits alone. */
  waitingOf(tenant: string): Promise<TinkerWaiting>;
  /** Resolves when it is finished, or after `milliseconds`, or at the signal; `undefined`: there is no such future. */
  waitFor(
    requestId: string,
    tenant: string,
    milliseconds: number,
    signal?: AbortSignal,
  ): Promise<TinkerFuture | undefined>;

  /**
   * Those of a lane that may run: contiguous from the first unfinished number, in order. A number that has not arrived
   * holds those after it (the SDK sends the first chunk last). Lanes of samplers have no order.
   */
  waiting(lane: string, limit: number): Promise<readonly WaitingOperation[]>;
  /** Lanes with work, oldest first. */
  busyLanes(kind: 'model' | 'sampler', limit: number): Promise<readonly string[]>;
  /** The first result counts, and is returned. With `checkpoint`, both are written in one transaction. */
  finish(requestId: string, result: TinkerResult, checkpoint?: TinkerCheckpoint): Promise<TinkerResult>;
}

/** Another request has this number. */
export class OperationConflict extends Error {
  override readonly name = 'OperationConflict';
}
