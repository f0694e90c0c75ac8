/** Workers of the Tinker API's lanes in this process, each of which can be cut off at any call, as by SIGKILL. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drainModel } from '../../../activities/tinker/drain-model.ts';
import { drainSampling } from '../../../activities/tinker/drain-sampling.ts';
import { FairTurns } from '../../../activities/tinker/fair-turns.ts';
import { DRAIN_LIMITS, type DrainLimits } from '../../../activities/tinker/limits.ts';
import { ResidentModels } from '../../../activities/tinker/resident-models.ts';
import type { TinkerEngine } from '../../../activities/tinker/tinker-engine.ts';
import type { TinkerOperation } from '../../../protocol/tinker.ts';
import { SqliteJournal } from '../../../store/tinker/sqlite-journal.ts';
import type { AdapterTrainer } from '../../../trainer/tenants/definition.ts';
import { model } from '../../store/tinker/contract.ts';
import { FakeEngine, type FakeOptions } from './fake-engine.ts';

export const QUICK: DrainLimits = { ...DRAIN_LIMITS, idleMs: 30, pauseMs: 1 };

/** JSON that has every bit of a number, and the bytes of arrays. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, own: unknown) => {
    if (ArrayBuffer.isView(own)) return Buffer.from(own.buffer, own.byteOffset, own.byteLength).toString('hex');
    return typeof own === 'number' && (!Number.isFinite(own) || Object.is(own, -0))
      ? `number ${Object.is(own, -0) ? '-0' : own}`
      : own;
  });
}

/** After `cut`, no call through it starts or ends. */
function cuttable<T extends object>(target: T, isCut: () => boolean, onCall: () => void): T {
  const never = new Promise<never>(() => undefined);
  return new Proxy(target, {
    get(own, name) {
      const value: unknown = Reflect.get(own, name, own);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]) => {
        onCall();
        if (isCut()) return never;
        const result: unknown = Reflect.apply(value, own, given);
        return result instanceof Promise
          ? result.then(
              (done) => (isCut() ? never : done),
              (error) => (isCut() ? never : Promise.reject(error)),
            )
          : result;
      };
    },
  });
}

export interface WorkerOptions extends FakeOptions {
  /** In place of the fake one. */
  readonly trainer?: AdapterTrainer;
}

export class TestWorker {
  readonly engine: FakeEngine;
  readonly residents: ResidentModels;
  readonly said: string[] = [];
  readonly #end = new AbortController();
  readonly #dead = Promise.withResolvers<'cut'>();
  readonly #deps;
  #isCut = false;
  #calls = 0;
  cutAfter = Infinity;

  constructor(journal: SqliteJournal, options: WorkerOptions = {}, limits: DrainLimits = QUICK) {
    this.engine = new FakeEngine(options);
    const given = options.trainer ?? this.engine.trainer;
    const onCall = () => {
      this.#calls += 1;
      if (this.#calls > this.cutAfter) this.cut();
    };
    const isCut = () => this.#isCut;
    const own = cuttable(journal, isCut, onCall);
    const trainer = cuttable(given, isCut, onCall);
    const sampling = cuttable(this.engine, isCut, onCall);
    const engine: TinkerEngine = { trainerOf: async () => trainer, sample: (...asked) => sampling.sample(...asked) };
    const say = (line: string) => void this.said.push(line);
    const turns = new FairTurns();
    this.residents = new ResidentModels({ journal: own, engine, turns, limits, say });
    this.#deps = { journal: own, engine, turns, residents: this.residents, owner: 'test', say, limits };
  }

  cut(): void {
    this.#isCut = true;
    this.#dead.resolve('cut');
  }

  stop(): void {
    this.#end.abort(new Error('stopped'));
  }

  /** How it ended: `cut` if this worker was killed meanwhile. */
  drain(lane: string): Promise<'idle' | 'more' | 'cut'> {
    return Promise.race([drainModel(lane, this.#deps, this.#end.signal).then(({ end }) => end), this.#dead.promise]);
  }

  sample(base = 'base'): Promise<'idle' | 'more' | 'cut'> {
    return Promise.race([drainSampling(base, this.#deps, this.#end.signal).then(({ end }) => end), this.#dead.promise]);
  }
}

export class TestBook {
  readonly dir = mkdtempSync(join(tmpdir(), 'longhaul-tinker-'));
  readonly journal: SqliteJournal;
  readonly requests: Array<{ readonly id: string; readonly tenant: string }> = [];
  readonly #next = new Map<string, number>();
  readonly #others: SqliteJournal[] = [];

  constructor() {
    this.journal = new SqliteJournal(this.dir, undefined);
  }

  async model(id: string, tenant = 'ann'): Promise<void> {
    await this.journal.putBase('base', '/base');
    await this.journal.putModel(model(id, { tenant }));
  }

  async ask(lane: string, operation: TinkerOperation, tenant = 'ann'): Promise<string> {
    const seq = this.#next.get(lane) ?? 0;
    this.#next.set(lane, seq + 1);
    const { requestId } = await this.journal.accept({ tenant, lane, seq, digest: `${seq}`, operation });
    this.requests.push({ id: requestId, tenant });
    return requestId;
  }

  /** A worker with a connection of its own. */
  worker(options: WorkerOptions = {}, limits: DrainLimits = QUICK): TestWorker {
    const journal = new SqliteJournal(this.dir, undefined);
    this.#others.push(journal);
    return new TestWorker(journal, options, limits);
  }

  async result(id: string, tenant = 'ann') {
    const future = await this.journal.future(id, tenant);
    return future?.state === 'finished' ? future.result : undefined;
  }

  /** Every future in the order of its request, to the bit. */
  async bits(): Promise<string[]> {
    const results = await Promise.all(this.requests.map(({ id, tenant }) => this.result(id, tenant)));
    return results.map((result) => (result === undefined ? 'waiting' : canonical(result)));
  }

  async close(): Promise<void> {
    await Promise.all([this.journal, ...this.#others].map((journal) => journal.close()));
    rmSync(this.dir, { recursive: true, force: true });
  }
}
