/**
 * The models that are in the engine's memory. One that is not is rebuilt when it is used: from its last state and the
 * operations that have finished since, which gives the same bits. Those not used for longest are saved and dropped.
 */

import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { TinkerOperation, TinkerResult } from '../../protocol/tinker.ts';
import { STATES } from '../../store/tinker/sqlite-retention.ts';
import { LaneLost, type LaneHold, type ModelState, type TinkerWork } from '../../store/tinker/work.ts';
import type { AdapterTrainer } from '../../trainer/tenants/definition.ts';
import { applyToModel, tokensOf } from './apply-operation.ts';
import type { FairTurns } from './fair-turns.ts';
import type { DrainLimits } from './limits.ts';
import type { TinkerEngine } from './tinker-engine.ts';

/** A model could not be brought back: nothing of it can run. */
export class RebuildFailed extends Error {
  override readonly name = 'RebuildFailed';
  /** True if it has no tries left. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean, options?: ErrorOptions) {
    super(message, options);
    this.isFinal = isFinal;
  }
}

/** A model in memory. */
export interface Resident {
  readonly model: string;
  readonly tenant: string;
  readonly trainer: AdapterTrainer;
  /** Its name in the trainer: of this rebuild alone, so that an execution that came too late works on another. */
  readonly engineId: string;
  hold: LaneHold;
  /** False until an operation makes it. */
  exists: boolean;
  /** The last number whose operation is in it, and in its state on disk. */
  through: number;
  saved: number;
  since: { operations: number; tokens: number; milliseconds: number };
  savingMs: number;
  bytes: number;
  usedAt: number;
  isBusy: boolean;
  /** Its execution ended in order: the next hold may take it over. */
  isSettled: boolean;
}

export interface ResidentDeps {
  readonly journal: TinkerWork;
  readonly engine: TinkerEngine;
  readonly turns: FairTurns;
  readonly limits: DrainLimits;
  readonly say: (line: string) => void;
}

/** Adapter, gradient and two moments. */
const COPIES = 4;

export class ResidentModels {
  readonly #deps: ResidentDeps;
  readonly #residents = new Map<string, Resident>();

  constructor(deps: ResidentDeps) {
    this.#deps = deps;
  }

  get models(): readonly string[] {
    return [...this.#residents.keys()];
  }

  /**
   * Runs `work` with the model in memory; it is not evicted meanwhile. Of one model, one call at a time.
   * Errors: `RebuildFailed`, `LaneLost`, those of `work`, after which it is not in memory any more.
   */
  async use<T>(
    hold: LaneHold,
    of: { readonly model: string; readonly tenant: string; readonly baseDir: string },
    signal: AbortSignal,
    work: (resident: Resident) => Promise<T>,
  ): Promise<T> {
    const resident = (await this.#adopted(hold, of.model)) ?? (await this.#rebuilt(hold, of, signal));
    const done = await work(resident).catch(async (error: unknown) => {
      await this.#remove(resident);
      throw error;
    });
    resident.usedAt = performance.now();
    resident.isBusy = false;
    await this.#makeRoom(of.model, 0);
    return done;
  }

  /** The one in memory, if no other hold was between. */
  async #adopted(hold: LaneHold, model: string): Promise<Resident | undefined> {
    const known = this.#residents.get(model);
    if (known === undefined) return undefined;
    // An eviction under way ends first.
    if (known.isBusy) await this.#evictions.get(model);
    const { fence } = known.hold;
    const isNext = fence === hold.fence || (known.isSettled && fence + 1 === hold.fence);
    if (this.#residents.get(model) !== known) return undefined;
    if (isNext) return Object.assign(known, { hold, isBusy: true, isSettled: false });
    await this.#remove(known);
    return undefined;
  }

  async #rebuilt(
    hold: LaneHold,
    { model, tenant, baseDir }: { readonly model: string; readonly tenant: string; readonly baseDir: string },
    signal: AbortSignal,
  ): Promise<Resident> {
    const { journal, limits } = this.#deps;
    const key = `rebuild ${model}`;
    const [begun] = await journal.begin(hold, [key]);
    if (begun !== undefined && begun.lost >= limits.lost) {
      await journal.forgetExecutions(key);
      throw new RebuildFailed(`${begun.lost} workers ended while they rebuilt ${model}`, true);
    }
    let resident: Resident | undefined;
    try {
      await this.#makeRoom(model, 1);
      resident = await this.#load(hold, model, tenant, baseDir);
      this.#residents.set(model, resident);
      await this.#replay(resident, signal);
      await journal.forgetExecutions(key);
      return resident;
    } catch (error) {
      if (resident !== undefined) await this.#remove(resident);
      // A lost engine ends this process: as with other lost workers, this execution has no end.
      if (error instanceof Error && error.name === 'EngineLost') throw error;
      if (begun !== undefined) await journal.endExecution(begun.execution, 'forgotten').catch(() => undefined);
      if (signal.aborted || error instanceof LaneLost) throw error;
      const message = error instanceof Error ? error.message : String(error);
      throw new RebuildFailed(`${model}: ${message}`, false, { cause: error });
    }
  }

  async #load(hold: LaneHold, model: string, tenant: string, baseDir: string): Promise<Resident> {
    const { journal, engine } = this.#deps;
    const trainer = await engine.trainerOf(baseDir);
    const engineId = `${model}#${hold.fence}-${randomUUID().slice(0, 8)}`;
    const state = await journal.state(model);
    const started = performance.now();
    if (state !== undefined) await trainer.load(engineId, state.dir, { optimizer: true });
    const through = state?.through ?? -1;
    return {
      model,
      tenant,
      trainer,
      engineId,
      hold,
      exists: state !== undefined,
      through,
      saved: through,
      since: { operations: 0, tokens: 0, milliseconds: 0 },
      savingMs: performance.now() - started,
      bytes: (state?.bytes ?? 0) * COPIES,
      usedAt: performance.now(),
      isBusy: true,
      isSettled: false,
    };
  }

  /** Runs again what finished since the state. A result that differs now is reported: the recorded one stands. */
  async #replay(resident: Resident, signal: AbortSignal): Promise<void> {
    const { journal, turns, limits, say } = this.#deps;
    const { model, tenant } = resident;
    for (;;) {
      const operations = await journal.applied(model, resident.through, limits.readBytes);
      if (operations.length === 0) return;
      for (const operation of operations) {
        const result = await turns.run(tenant, model, signal, () =>
          applyToModel(resident, operation, operation.reads, signal),
        );
        this.note(resident, operation.seq, operation.operation, 0);
        if (!isSame(result, operation.result))
          say(`${model}: request ${operation.seq} gave another result when it was run again; the first one stands`);
      }
    }
  }

  /** Notes that operation `seq` is in the model now. */
  note(resident: Resident, seq: number, operation: TinkerOperation, milliseconds: number): void {
    const { since } = resident;
    resident.through = Math.max(resident.through, seq);
    since.operations += 1;
    since.tokens += tokensOf(operation);
    since.milliseconds += milliseconds;
  }

  /** True if a rebuild would repeat too much. */
  isDue({ since, savingMs, exists }: Resident): boolean {
    const { saveAfter, savingShare } = this.#deps.limits;
    if (!exists) return false;
    const isLongEnough = since.milliseconds >= Math.max(saveAfter.milliseconds, savingMs / savingShare);
    return since.operations >= saveAfter.operations || since.tokens >= saveAfter.tokens || isLongEnough;
  }

  /** Writes the model's state; it is not yet the one that counts. */
  async write(resident: Resident, through = resident.through): Promise<ModelState> {
    const { model, trainer, engineId } = resident;
    const folder = join(this.#deps.journal.dir, STATES);
    await mkdir(folder, { recursive: true });
    const dir = join(folder, randomUUID());
    const started = performance.now();
    const { bytes, sha256 } = await trainer.save(engineId, dir, 'training');
    resident.savingMs = performance.now() - started;
    return { model, through, dir, bytes, sha256 };
  }

  /** Notes that this state counts now. */
  saved(resident: Resident, { through, bytes }: ModelState): void {
    resident.saved = through;
    resident.bytes = bytes * COPIES;
    resident.since = { operations: 0, tokens: 0, milliseconds: 0 };
  }

  /** Saves what is not on disk. Errors: `LaneLost`, those of the trainer and the journal. */
  async save(resident: Resident): Promise<void> {
    if (!resident.exists || resident.through <= resident.saved) return;
    const state = await this.write(resident);
    await this.#deps.journal.putState(resident.hold, state);
    this.saved(resident, state);
  }

  /** At the end of an execution: what is in memory is on disk too, and the next execution may take it over. */
  async settle(model: string): Promise<void> {
    const resident = this.#residents.get(model);
    if (resident === undefined) return;
    if (resident.isBusy) await this.#evictions.get(model);
    if (this.#residents.get(model) !== resident) return;
    resident.isBusy = true;
    try {
      await this.save(resident);
      resident.isSettled = true;
    } finally {
      resident.isBusy = false;
    }
  }

  /** Forgets what was made under a hold, without saving it. */
  async drop(model: string, { fence }: LaneHold): Promise<void> {
    const resident = this.#residents.get(model);
    if (resident?.hold.fence === fence) await this.#remove(resident);
  }

  async #remove(resident: Resident): Promise<void> {
    if (this.#residents.get(resident.model) === resident) this.#residents.delete(resident.model);
    await resident.trainer.drop(resident.engineId).catch(() => undefined);
  }

  readonly #evictions = new Map<string, Promise<void>>();

  #isOver(coming: 0 | 1): boolean {
    const { residents, residentBytes } = this.#deps.limits;
    const sizes = [...this.#residents.values()].map(({ bytes }) => bytes);
    const known = sizes.filter((bytes) => bytes > 0);
    // One that was never saved counts as the others do on average.
    const mean = known.length === 0 ? 0 : known.reduce((sum, bytes) => sum + bytes, 0) / known.length;
    const used = sizes.reduce((sum, bytes) => sum + (bytes || mean), mean * coming);
    return sizes.length + coming > residents || (sizes.length + coming > 1 && used > residentBytes);
  }

  /** Evicts those used longest ago, for `coming` more. Those at work stay, also if there are too many. */
  async #makeRoom(model: string, coming: 0 | 1): Promise<void> {
    while (this.#isOver(coming)) {
      const [oldest] = [...this.#residents.values()]
        .filter((resident) => !resident.isBusy && resident.model !== model)
        .toSorted((a, b) => a.usedAt - b.usedAt);
      if (oldest === undefined) return;
      const evicting = this.#evict(oldest);
      this.#evictions.set(oldest.model, evicting);
      await evicting.finally(() => this.#evictions.delete(oldest.model));
    }
  }

  /** One that cannot be saved is dropped all the same: it is rebuilt from the journal. */
  async #evict(resident: Resident): Promise<void> {
    resident.isBusy = true;
    await this.save(resident).catch((error: unknown) => {
      if (!(error instanceof LaneLost))
        this.#deps.say(
          `${resident.model} leaves the memory unsaved: ${error instanceof Error ? error.message : String(error)}`,
        );
    });
    await this.#remove(resident);
    resident.isBusy = false;
  }
}

/** A removed result cannot be compared. */
function isSame(now: TinkerResult, recorded: TinkerResult): boolean {
  return recorded.kind !== now.kind || isDeepStrictEqual(now, recorded);
}
