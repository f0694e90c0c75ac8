/**
 * What workers do with the journal. One execution holds a lane at a time: the next one that takes it ends the earlier
 * hold, under which nothing more can be written. So a worker that was frozen or cut off changes nothing when it comes
 * back.
 */

import type { TinkerResult } from '../../protocol/tinker.ts';
import type { TinkerCheckpoint, WaitingOperation } from './journal.ts';

/** Another execution holds the lane now. */
export class LaneLost extends Error {
  override readonly name = 'LaneLost';

  constructor(lane: string) {
    super(`another worker has taken ${lane}: this execution stops, and nothing that it does counts`);
  }
}

export interface LaneHold {
  /** As `laneName`. */
  readonly lane: string;
  /** Counts who has taken the lane. */
  readonly fence: number;
}

/** A model's state on disk: everything that its operations up to `through` did, gradient and moments included. */
export interface ModelState {
  readonly model: string;
  readonly through: number;
  readonly dir: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Earlier executions of the same work that have no end (their worker was lost), or that failed. */
export interface BegunWork {
  readonly execution: number;
  readonly lost: number;
  readonly failed: number;
}

/** An operation that changed its model, and its result. */
export interface FinishedOperation extends WaitingOperation {
  readonly result: TinkerResult;
}

/** A sample that waits, and the adapter that it is of; absent: the base. */
export interface WaitingSample extends WaitingOperation {
  readonly adapter?: { readonly path: string; readonly dir: string | undefined };
}

export interface Finish {
  readonly requestId: string;
  readonly result: TinkerResult;
  /** Written in the same transaction, in place of one with the same path. */
  readonly checkpoint?: TinkerCheckpoint;
  /** The model's state from then on, in the same transaction. */
  readonly state?: ModelState;
}

export interface TinkerWork {
  readonly dir: string;
  baseDir(name: string): Promise<string | undefined>;
  /** The kind of engine that has the lane: the first one that is given counts. */
  pinKind(lane: string, kind: string): Promise<string>;

  take(lane: string, owner: string, milliseconds: number): Promise<LaneHold>;
  /** Errors: `LaneLost`. */
  renew(hold: LaneHold, milliseconds: number): Promise<void>;
  /** Ends the hold, unless work has arrived (false). After it, the server that accepts work wakes the lane. */
  leave(hold: LaneHold): Promise<boolean>;
  /** Ends the hold although work waits. Nothing if another one has the lane. */
  release(hold: LaneHold): Promise<void>;

  /** Notes that work starts, before it does. Errors: `LaneLost`. */
  begin(hold: LaneHold, keys: readonly string[]): Promise<readonly BegunWork[]>;
  /** `forgotten`: it counts as neither lost nor failed. */
  endExecution(execution: number, end: 'failed' | 'forgotten'): Promise<void>;
  /** Forgets the executions of `key`. */
  forgetExecutions(key: string): Promise<void>;

  /** As `TinkerJournal.waiting`, with at most `bytes` of bodies, but one operation in any case. */
  waitingIn(model: string, limit: number, bytes: number): Promise<readonly WaitingOperation[]>;
  /** Of a base, one tenant's after the other's, without those in `except`, and those of the tenants in `served`. */
  waitingSamples(
    base: string,
    limit: number,
    except: readonly string[],
    served?: readonly string[],
  ): Promise<readonly WaitingSample[]>;
  /** Waits until the lane has work, of samples as in `waitingSamples`; at most `milliseconds`. */
  untilWork(
    lane:
      | { readonly model: string }
      | { readonly base: string; readonly except: readonly string[]; readonly served?: readonly string[] },
    milliseconds: number,
    signal: AbortSignal,
  ): Promise<void>;
  /** The first result counts, and is returned. Errors: `LaneLost`. */
  finishIn(hold: LaneHold, finish: Finish): Promise<TinkerResult>;
  /** Fails whatever waits in the lane, as the server's fault. Errors: `LaneLost`. */
  failWaiting(hold: LaneHold, message: string): Promise<number>;

  state(model: string): Promise<ModelState | undefined>;
  /** Errors: `LaneLost`. */
  putState(hold: LaneHold, state: ModelState): Promise<void>;
  /** Why the model takes no more operations; absent: it does. */
  ended(model: string): Promise<string | undefined>;
  /** Finishes the operation that ends the model, which takes none after it. Errors: `LaneLost`. */
  endModel(hold: LaneHold, finish: Pick<Finish, 'requestId' | 'result'>, why: string): Promise<TinkerResult>;
  /**
   * Those that changed the model after number `after` and did not fail, in order; at most `bytes` of bodies, but one.
   */
  applied(model: string, after: number, bytes: number): Promise<readonly FinishedOperation[]>;
}
