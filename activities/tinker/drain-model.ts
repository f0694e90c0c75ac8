/**
 * Runs the operations of one model in their order, each once, and records each result before the next one starts. What
 * the caller did wrong is a result; whatever else fails is tried again, and then fails as the server's fault.
 */

import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TinkerResult } from '../../protocol/tinker.ts';
import type { DrainOutcome } from '../../protocol/tinker-lanes.ts';
import { classifyDiskError, isTransient } from '../../store/disk-errors.ts';
import type { TinkerModel, WaitingOperation } from '../../store/tinker/journal.ts';
import { CHECKPOINTS } from '../../store/tinker/sqlite-retention.ts';
import { type Finish, LaneLost, type LaneHold } from '../../store/tinker/work.ts';
import { applyToModel } from './apply-operation.ts';
import type { FairTurns } from './fair-turns.ts';
import { type HoldDeps, withLane } from './keep-hold.ts';
import { RebuildFailed, type Resident, type ResidentModels } from './resident-models.ts';
import { isUsersFault } from './tinker-engine.ts';
import type { SqliteJournal } from '../../store/tinker/sqlite-journal.ts';

export interface DrainDeps extends HoldDeps {
  readonly journal: SqliteJournal;
  readonly turns: FairTurns;
  readonly residents: ResidentModels;
  readonly say: (line: string) => void;
}

type Failed = Extract<TinkerResult, { kind: 'failed' }>;

export const failed = (category: Failed['category'], message: string): Failed => ({
  kind: 'failed',
  category,
  message: message.slice(0, 2_000),
});

/** The failure of an operation whose executions always end their worker. */
export const quarantined = (lost: number): Failed =>
  failed(
    'server',
    `${lost} workers ended while they ran this request, so it is not run again: it may be what ends them`,
  );

/** The engine's thread has ended, or its process is about to: another process continues. */
export const isEngineLost = (error: unknown): boolean => error instanceof Error && error.name === 'EngineLost';

/** Another process has recorded another result, for example since the operation waited too long: that one counts. */
class Overruled extends Error {
  override readonly name = 'Overruled';
}

class TookTooLong extends Error {
  override readonly name = 'TookTooLong';
}

/** Errors: `TookTooLong`; those of `work`. */
export async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => over.reject(new TookTooLong(`it took longer than ${Math.round(milliseconds / 1000)} s`)),
    milliseconds,
  );
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

class ModelDrain {
  readonly #deps: DrainDeps;
  readonly #hold: LaneHold;
  readonly #signal: AbortSignal;
  readonly #model: TinkerModel;

  constructor(deps: DrainDeps, hold: LaneHold, signal: AbortSignal, model: TinkerModel) {
    this.#deps = deps;
    this.#hold = hold;
    this.#signal = signal;
    this.#model = model;
  }

  async run(): Promise<DrainOutcome> {
    const { journal, limits, residents } = this.#deps;
    const until = performance.now() + limits.sliceMs;
    let worked = performance.now();
    while (!this.#signal.aborted && performance.now() < until) {
      const waiting = await journal.waitingIn(this.#model.id, 32, limits.readBytes);
      for (const operation of waiting) {
        if (this.#signal.aborted || performance.now() >= until) break;
        this.#hasFailedAll = false;
        await this.#finish(operation);
        worked = performance.now();
        // The rest of the list has failed as well.
        if (this.#hasFailedAll) break;
      }
      if (waiting.length > 0) continue;
      const left = worked + limits.idleMs - performance.now();
      if (left > 0) await journal.untilWork({ model: this.#model.id }, left, this.#signal);
      else {
        await residents.settle(this.#model.id);
        if (await journal.leave(this.#hold)) return { end: 'idle' };
      }
    }
    if (this.#signal.reason instanceof LaneLost) throw this.#signal.reason;
    await residents.settle(this.#model.id);
    return { end: 'more' };
  }

  /** Tries until there is a result. Errors: `LaneLost`; a lost engine; the reason of the signal. */
  async #finish(operation: WaitingOperation): Promise<void> {
    const { journal, limits } = this.#deps;
    for (let isFinished = false; !isFinished;) {
      const [begun] = await journal.begin(this.#hold, [operation.requestId]);
      const { execution, lost, failed: failures } = begun ?? { execution: 0, lost: 0, failed: 0 };
      if (lost >= limits.lost) {
        await journal.finishIn(this.#hold, { requestId: operation.requestId, result: quarantined(lost) });
        return;
      }
      isFinished = await this.#try(operation).catch((error: unknown) =>
        this.#hasFailed(operation, error, { execution, failures }),
      );
    }
  }

  /** True if the failure became the result. */
  async #hasFailed(
    operation: WaitingOperation,
    thrown: unknown,
    { execution, failures }: { readonly execution: number; readonly failures: number },
  ): Promise<boolean> {
    const { journal, limits, say } = this.#deps;
    const error = classifyDiskError(thrown, journal.dir);
    if (error instanceof LaneLost || isEngineLost(error)) throw error;
    if (error instanceof Overruled) return true;
    if (this.#signal.aborted) {
      await journal.endExecution(execution, 'forgotten');
      throw error;
    }
    const message = error instanceof Error ? error.message : String(error);
    const { requestId } = operation;
    if (isUsersFault(error)) {
      await journal.finishIn(this.#hold, { requestId, result: failed('user', message) });
      return true;
    }
    if (error instanceof RebuildFailed) {
      // It has tries of its own, and what failed is not this operation.
      await journal.endExecution(execution, 'forgotten');
      return this.#unlessBack(error);
    }
    say(`request ${operation.seq} of ${this.#model.id} failed: ${message}`);
    // A disk that is full or read-only fails nothing: the work waits.
    const counts = !isTransient(error);
    await journal.endExecution(execution, counts ? 'failed' : 'forgotten');
    if (counts && failures + 1 >= limits.failures) {
      await journal.finishIn(this.#hold, { requestId, result: failed('server', message) });
      return true;
    }
    await sleep(limits.pauseMs, undefined, { signal: this.#signal });
    return false;
  }

  #rebuilds = 0;
  #hasFailedAll = false;

  /** After some tries whatever waits fails: a later request tries anew. */
  async #unlessBack(error: RebuildFailed): Promise<boolean> {
    const { journal, limits, say } = this.#deps;
    this.#rebuilds += 1;
    say(`rebuild ${this.#rebuilds}: ${error.message}`);
    if (!error.isFinal && this.#rebuilds < limits.failures) {
      await sleep(limits.pauseMs, undefined, { signal: this.#signal });
      return false;
    }
    this.#rebuilds = 0;
    await journal.failWaiting(this.#hold, `the model could not be brought back to memory (${error.message})`);
    this.#hasFailedAll = true;
    return true;
  }

  /** True. Errors: whatever the operation throws. */
  async #try(operation: WaitingOperation): Promise<true> {
    const { journal, residents } = this.#deps;
    const { requestId, seq } = operation;
    const ended = await journal.ended(this.#model.id);
    if (ended !== undefined) {
      await journal.finishIn(this.#hold, { requestId, result: failed('user', `${this.#model.id}: ${ended}`) });
      return true;
    }
    if (operation.operation.kind === 'unload_model') {
      await journal.endModel(this.#hold, { requestId, result: { kind: 'done' } }, 'the model was unloaded');
      await residents.drop(this.#model.id, this.#hold);
      return true;
    }
    const { id: model, tenant, baseModel } = this.#model;
    const baseDir = await journal.baseDir(baseModel);
    if (baseDir === undefined) throw new Error(`the server has not said where the base model ${baseModel} is`);
    await residents.use(this.#hold, { model, tenant, baseDir }, this.#signal, async (resident) => {
      this.#rebuilds = 0;
      const { finish, milliseconds } = await this.#execute(operation, resident);
      const kept = await journal.finishIn(this.#hold, finish);
      if (kept.kind !== finish.result.kind) throw new Overruled(`${requestId} has another result`);
      residents.note(resident, seq, operation.operation, milliseconds);
      if (finish.state !== undefined) residents.saved(resident, finish.state);
      if (residents.isDue(resident)) await this.#save(resident);
    });
    return true;
  }

  /** The result is on record: a state that cannot be saved now is saved later. */
  async #save(resident: Resident): Promise<void> {
    await this.#deps.residents.save(resident).catch((error: unknown) => {
      if (error instanceof LaneLost || isEngineLost(error)) throw error;
      this.#deps.say(`${resident.model} is not saved: ${error instanceof Error ? error.message : String(error)}`);
    });
  }

  /** A user's fault changes nothing in the model, and is a result. Errors: others of the trainer. */
  async #execute(operation: WaitingOperation, resident: Resident) {
    const { turns, limits } = this.#deps;
    const { id, tenant } = this.#model;
    return turns.run(tenant, id, this.#signal, async () => {
      const started = performance.now();
      // A pass that took too long, or whose lane is lost, stops: it must not run beside its next try, or hold the
      // engine from others. One that is under way when the worker stops ends, and is saved.
      const over = new AbortController();
      const lose = () => this.#signal.reason instanceof LaneLost && over.abort(this.#signal.reason);
      this.#signal.addEventListener('abort', lose);
      const finish = await within(limits.operationMs, this.#result(operation, resident, over.signal))
        .catch((error: unknown): Finish => {
          if (!isUsersFault(error)) throw error;
          return { requestId: operation.requestId, result: failed('user', error.message) };
        })
        .finally(() => {
          this.#signal.removeEventListener('abort', lose);
          over.abort();
        });
      return { finish, milliseconds: performance.now() - started };
    });
  }

  async #result(operation: WaitingOperation, resident: Resident, signal: AbortSignal): Promise<Finish> {
    const { journal, residents } = this.#deps;
    const { requestId, seq, operation: asked } = operation;
    const makes = asked.kind === 'create_model' || asked.kind === 'load_weights';
    if (!resident.exists && !makes)
      return {
        requestId,
        result: failed('user', `${resident.model} does not exist: making it failed, or its state was removed`),
      };
    if (asked.kind === 'save_weights') return this.#checkpoint(requestId, asked, resident);
    if (asked.kind !== 'load_weights')
      return { requestId, result: await applyToModel(resident, operation, undefined, signal) };
    // The model itself may have overwritten a checkpoint of its own since this was accepted.
    const isOwn = asked.path.startsWith(`tinker://${this.#model.id}/`);
    const now = isOwn || operation.reads === undefined ? await journal.checkpoint(asked.path) : undefined;
    const reads = now?.dir ?? operation.reads;
    const result = await applyToModel(resident, operation, reads);
    // The checkpoint may be deleted from now on, so a rebuild must not need it.
    return { requestId, result, state: await residents.write(resident, seq) };
  }

  async #checkpoint(
    requestId: string,
    {
      path,
      what,
      overwrite,
      expiresAt,
      userMetadata,
    }: Extract<WaitingOperation['operation'], { kind: 'save_weights' }>,
    resident: Resident,
  ): Promise<Finish> {
    const { journal } = this.#deps;
    if (!overwrite && (await journal.checkpoint(path)) !== undefined)
      return { requestId, result: failed('user', `${path} exists: give another name, or overwrite it`) };
    const folder = join(journal.dir, CHECKPOINTS);
    await mkdir(folder, { recursive: true });
    const dir = join(folder, randomUUID());
    const { sha256, bytes } = await resident.trainer.save(resident.engineId, dir, what);
    return {
      requestId,
      result: { kind: 'saved', path, sha256, bytes },
      checkpoint: {
        path,
        run: this.#model.id,
        tenant: this.#model.tenant,
        kind: what,
        dir,
        bytes,
        sha256,
        createdAt: new Date().toISOString(),
        ...(expiresAt === undefined ? {} : { expiresAt }),
        ...(userMetadata === undefined ? {} : { userMetadata }),
        public: false,
      },
    };
  }
}

/**
 * Runs what waits in a model's lane, until it has been empty for a while or its time is over.
 * Errors: `LaneLost` if another execution has taken the lane; a lost engine; disk errors by their class.
 */
export async function drainModel(model: string, deps: DrainDeps, signal: AbortSignal): Promise<DrainOutcome> {
  const known = await deps.journal.model(model);
  if (known === undefined) return { end: 'idle' };
  return withLane(model, deps, signal, async (hold, own) => {
    try {
      return await new ModelDrain(deps, hold, own, known).run();
    } catch (error) {
      await deps.residents.drop(model, hold);
      if (signal.aborted) return { end: 'more' };
      throw error;
    }
  });
}
