/**
 * Applies changes of the store to the read model's tables. Within each kind of change their order counts; between the
 * kinds it does not, so that a model that followed the store page by page is the same as one that was built at once.
 */

import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { EvalEnd, EvalRecord } from '../evaluation/eval-records.ts';
import type { Spending } from '../../protocol/budget.ts';
import { batchOf } from '../spending.ts';
import { RolloutRows, type RolloutState } from './rollout-rows.ts';
import { batchesOf, type OutcomeRecord, type RunEnd, type RunRecord, type StepEntry } from '../../protocol/records.ts';
import { resultKeyOf, runOfKey } from '../../protocol/record-keys.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { readTaskKey } from '../../protocol/task-key.ts';
import { afterPrefix } from '../../store/checked-rows.ts';
import type { ChangedRecord, Changes, Execution, RolloutEvent } from '../../store/store.ts';

/** The records whose values are read. */
export const KINDS = ['run', 'run-end', 'run-again', 'pruned', 'step', 'eval', 'eval-round', 'eval-end', 'outcome'];

const ENDS: ReadonlySet<string> = new Set(['trained', 'masked', 'dropped', 'evaluated']);

/** The run, or the eval (`eval/ID`), of a rollout. A single rollout is its own. */
export const runOfRollout = (rollout: string): string => runOfKey(`outcome:${rollout}`) ?? rollout;

/** `train/RUN/BATCH/TASK/K`: its batch, and its task if the id has one. */
function placeOf(rollout: string): { readonly batch: string; readonly task: string | null } {
  const parts = rollout.split('/');
  const isOfBatch = parts.length > 4 && (parts[0] === 'train' || parts[0] === 'eval');
  return { batch: parts[2] ?? '', task: isOfBatch ? (parts.at(-2) ?? null) : null };
}

const WITHOUT_CATALOG = /^(.+?)-(?:held-out|[^-]+)-\d+$/u;

function sourceOf(task: string, sources: readonly string[]): string | null {
  return readTaskKey(task, sources)?.source ?? WITHOUT_CATALOG.exec(task)?.[1] ?? null;
}

/** `NAME/00002`; without a number: the first. */
function numbered(rest: string): { readonly name: string; readonly number: number } {
  const [, name = '', number = '1'] = /^(.*?)(?:\/(\d{5,}))?$/su.exec(rest) ?? [];
  return { name, number: Number(number) };
}

interface Call {
  readonly kind: 'model' | 'tool' | 'judge';
  readonly rollout: string;
  readonly attempt: number;
  readonly turn: number;
  /** Of a tool call: its place in the turn. Of a judge's: `PLACE/DIGEST/NUMBER`. */
  readonly place: number | string;
}

const CALL = /^(?:generate:(?<model>.*)#(?<a>\d+)\/(?<t>\d+)|answer:(?<tool>.*)#(?<b>\d+)\/(?<u>\d+)\/(?<i>\d+))$/su;

const ASK = /^ask:(.*)#(\d+)\/((?:start|grade|step\/(\d+)|tool\/(\d+)\/\d+)\/[0-9a-f]+\/\d+)$/su;

/** The call whose result has this key. `undefined` for the key of another result. */
function callOf(key: string): Call | undefined {
  const [, rollout, attempt, place = '', inStep, inTool] = ASK.exec(key) ?? [];
  if (rollout !== undefined)
    return { kind: 'judge', rollout, attempt: Number(attempt), turn: Number(inStep ?? inTool ?? 0), place };
  const found = CALL.exec(key)?.groups;
  if (found === undefined) return undefined;
  const { model, a, t, tool = '', b, u, i } = found;
  return model === undefined
    ? { kind: 'tool', rollout: tool, attempt: Number(b), turn: Number(u), place: Number(i) }
    : { kind: 'model', rollout: model, attempt: Number(a), turn: Number(t), place: 0 };
}

const columnsOf = ({ rollout, attempt, turn, kind, place }: Call) => [rollout, attempt, turn, kind, place];

/** The names of a catalog's sources. Empty if it cannot be read. */
export type SourcesOf = (catalog: ObjectRef) => readonly string[];

/** The catalogs that `changes` name. */
export function catalogsIn({ records }: Changes): ObjectRef[] {
  const found = records.flatMap(({ key, value }) => {
    const catalog = /^(?:eval|outcome):/u.test(key) ? (value as { readonly catalog?: ObjectRef }).catalog : undefined;
    return catalog === undefined ? [] : [catalog];
  });
  return [...new Set(found)];
}

export class Projection {
  readonly #db: DatabaseSync;
  readonly #rows: RolloutRows;
  readonly #statements = new Map<string, StatementSync>();
  /** When runs were pruned. */
  #pruned = new Map<string, string>();

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#rows = new RolloutRows(db);
  }

  /** The caller holds the transaction. */
  apply({ executions, events, records, damaged }: Changes, sourcesOf: SourcesOf): void {
    this.#rows.clear();
    const pruned = this.#prepare('SELECT run, at FROM pruned').all();
    this.#pruned = new Map(pruned.map(({ run, at }) => [String(run), String(at)]));
    for (const execution of executions) this.#execution(execution);
    for (const event of events) this.#event(event);
    for (const record of records) this.#record(record, sourcesOf);
    this.#rows.flush();
    for (const { kind, key, run = runOfKey(key) } of damaged)
      this.#run('INSERT INTO damaged (kind, key, run) VALUES (?, ?, ?)', kind, key, run ?? null);
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #run(sql: string, ...values: SQLInputValue[]): void {
    this.#prepare(sql).run(...values);
  }

  #execution({ key, at }: Execution): void {
    const result = /^(?:model|tool|judge):/u.test(key) ? resultKeyOf(key) : undefined;
    const call = result === undefined ? undefined : callOf(result);
    if (call === undefined || this.#isPruned(call, at)) return;
    this.#run(
      `INSERT INTO calls (rollout, attempt, turn, kind, place, started, starts) VALUES (?, ?, ?, ?, ?, ?, 1)
         ON CONFLICT DO UPDATE SET started = coalesce(started, excluded.started), starts = starts + 1`,
      ...columnsOf(call),
      at,
    );
  }

  #result(call: Call, at: string): void {
    if (this.#isPruned(call, at)) return;
    this.#run(
      `INSERT INTO calls (rollout, attempt, turn, kind, place, ended) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET ended = excluded.ended`,
      ...columnsOf(call),
      at,
    );
  }

  /** The records of a pruned run's calls are deleted, so none of these calls is kept. */
  #isPruned({ rollout }: Call, at: string): boolean {
    if (this.#pruned.size === 0) return false;
    const pruned = this.#pruned.get(runOfRollout(rollout));
    return pruned !== undefined && at <= pruned;
  }

  #rollout(rollout: string, run: string): RolloutState {
    return this.#rows.of(rollout, () => {
      const { batch, task } = placeOf(rollout);
      const sources = task === null ? undefined : this.#sources(run);
      const source = task === null || sources === undefined ? null : sourceOf(task, sources);
      return { run, batch, step: this.#stepOf(run, batch), task, source };
    });
  }

  #stepOf(run: string, batch: string): number | null {
    const known = this.#prepare('SELECT step FROM batches WHERE run = ? AND batch = ?').get(run, batch)?.['step'];
    if (typeof known === 'number') return known;
    const [, step] = /^step-(\d+)$/u.exec(batch) ?? [];
    return step === undefined ? null : Number(step);
  }

  /** `undefined`: they are not known yet. */
  #sources(run: string): readonly string[] | undefined {
    const rows = this.#prepare('SELECT source FROM sources WHERE run = ?').all(run);
    return rows.length === 0 ? undefined : rows.map(({ source }) => String(source));
  }

  /** Rollouts of the run may be known before its sources are. */
  #setSources(run: string, sources: readonly string[]): void {
    // A catalog without a source is known too.
    for (const source of sources.length === 0 ? [''] : sources)
      this.#run('INSERT OR IGNORE INTO sources (run, source) VALUES (?, ?)', run, source);
    this.#rows.flush();
    const rows = this.#prepare('SELECT rollout, task FROM rollouts WHERE run = ? AND task IS NOT NULL').all(run);
    for (const { rollout, task } of rows)
      this.#run('UPDATE rollouts SET source = ? WHERE rollout = ?', sourceOf(String(task), sources), String(rollout));
  }

  #event({ run, rollout, attempt, event, at, detail = '' }: RolloutEvent): void {
    const row = this.#rollout(rollout, run);
    const seconds = Date.parse(at) / 1000;
    // The row may come from an outcome, which does not name the run.
    row.run = run;
    row.first_at ??= at;
    // An outcome says which attempt counts, and late events change nothing of that.
    if (row.status === 'running') row.attempt = Math.max(row.attempt, attempt);
    if (event === 'dispatched') row.dispatched_at ??= at;
    if (event === 'started') {
      row.started_at ??= at;
      row.begun = seconds;
    }
    if (event === 'restored') row.restores += 1;
    if (event === 'turn' && row.status === 'running') row.turns = Math.max(row.turns, Number(detail) || 0);
    if (event === 'end-refused') row.again = 1;
    if (event === 'spent') this.#spent(run, rollout, detail);
    if (event === 'graded') this.#graded(row, at, seconds);
    if (ENDS.has(event)) this.#ended(row, { event, at, detail }, seconds);
  }

  #spent(run: string, rollout: string, detail: string): void {
    const { by, prompt, sampled, usd = 0, seconds = 0 } = JSON.parse(detail) as Spending;
    this.#run(
      `INSERT INTO spending (run, batch, spender, calls, prompt, sampled, usd, seconds) VALUES (?, ?, ?, 1, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET calls = calls + 1, prompt = prompt + excluded.prompt,
           sampled = sampled + excluded.sampled, usd = usd + excluded.usd, seconds = seconds + excluded.seconds`,
      run,
      batchOf(rollout),
      by,
      prompt,
      sampled,
      usd,
      seconds,
    );
  }

  #graded(row: RolloutState, at: string, seconds: number): void {
    row.graded_at ??= at;
    if (row.begun === null) return;
    this.#run(
      'INSERT INTO gradings (run, batch, place, begun, ended) VALUES (?, ?, ?, ?, ?)',
      row.run,
      row.batch,
      row.rollout.slice(0, row.rollout.lastIndexOf('/')),
      row.begun,
      seconds,
    );
    row.begun = null;
  }

  /** The first end stands. */
  #ended(
    row: RolloutState,
    { event, at, detail }: Pick<RolloutEvent, 'event' | 'at' | 'detail'>,
    seconds: number,
  ): void {
    if (row.ended === null) {
      row.ended = event;
      row.ended_at = at;
      row.detail = detail || null;
    } else row.again = 1;
    row.begun = null;
    this.#run(
      `INSERT INTO batch_ends (run, batch, ended) VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET ended = max(ended, excluded.ended)`,
      row.run,
      row.batch,
      seconds,
    );
  }

  #record({ key, at, value }: ChangedRecord, sourcesOf: SourcesOf): void {
    const call = callOf(key);
    if (call) this.#result(call, at);
    if (value === undefined) return;
    const colon = key.indexOf(':');
    const [kind, rest] = [key.slice(0, colon), key.slice(colon + 1)];
    const { name, number } = numbered(rest);
    if (kind === 'run') this.#newRun(value as RunRecord);
    if (kind === 'run-again') this.#start(name, number + 1);
    if (kind === 'run-end') this.#end(name, number, value as RunEnd);
    if (kind === 'step') this.#step(name, value as StepEntry);
    if (kind === 'pruned') this.#prune(rest, at);
    if (kind === 'outcome') this.#outcome(value as OutcomeRecord, sourcesOf);
    if (kind === 'eval') this.#newEval(value as EvalRecord, sourcesOf);
    if (kind === 'eval-round') this.#start(`eval/${name}`, number);
    if (kind === 'eval-end') this.#end(`eval/${name}`, number, value as EvalEnd);
  }

  #newRun({ run, startedAt, tasks }: RunRecord): void {
    this.#run("INSERT OR IGNORE INTO runs (name, kind, started_at) VALUES (?, 'run', ?)", run, startedAt);
    this.#start(run, 1);
    this.#setSources(run, [...new Set([...tasks.train, ...tasks.heldOut].map(({ source }) => source))]);
  }

  #newEval({ eval: id, startedAt, catalog }: EvalRecord, sourcesOf: SourcesOf): void {
    const name = `eval/${id}`;
    this.#run("INSERT OR IGNORE INTO runs (name, kind, started_at) VALUES (?, 'eval', ?)", name, startedAt);
    this.#setSources(name, catalog === undefined ? [] : sourcesOf(catalog));
  }

  #start(run: string, number: number): void {
    this.#run('INSERT OR IGNORE INTO starts (run, number) VALUES (?, ?)', run, number);
  }

  #end(run: string, number: number, { status, finishedAt }: Pick<RunEnd, 'status' | 'finishedAt'>): void {
    this.#run(
      'INSERT OR IGNORE INTO ends (run, number, status, finished_at) VALUES (?, ?, ?, ?)',
      run,
      number,
      status,
      finishedAt,
    );
  }

  #step(run: string, { record }: StepEntry): void {
    this.#rows.flush();
    for (const batch of batchesOf(record)) {
      this.#run(
        'INSERT INTO batches (run, batch, step) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET step = max(step, ' +
          'excluded.step)',
        run,
        batch,
        record.step,
      );
      this.#run('UPDATE rollouts SET step = ? WHERE run = ? AND batch = ?', this.#stepOf(run, batch), run, batch);
    }
  }

  /** The records of its calls until now are deleted from the store. An eval may continue after that. */
  #prune(run: string, at: string): void {
    this.#run('INSERT OR REPLACE INTO pruned (run, at) VALUES (?, ?)', run, at);
    this.#pruned.set(run, at);
    const prefix = run.startsWith('eval/') ? `${run}/` : `train/${run}/`;
    this.#run(
      "DELETE FROM calls WHERE rollout >= ? AND rollout < ? AND max(coalesce(started, ''), coalesce(ended, '')) <= ?",
      prefix,
      afterPrefix(prefix),
      at,
    );
  }

  #outcome(outcome: OutcomeRecord, sourcesOf: SourcesOf): void {
    const { rollout, task, catalog, attempt, turns, status, reward, passed, finish, failure } = outcome;
    const run = runOfRollout(rollout);
    const row = this.#rollout(rollout, run);
    const ofSingle = catalog === undefined ? [] : sourcesOf(catalog);
    const sources = this.#sources(run) ?? (run === rollout ? ofSingle : undefined);
    Object.assign(row, { task, attempt, turns, status, reward, passed: Number(passed), finish, failure });
    if (sources !== undefined) row.source = sourceOf(task, sources);
  }
}
