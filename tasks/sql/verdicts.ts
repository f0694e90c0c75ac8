/**
 * Grades a query against gold queries by name: `skyrl`, `spider` (test-suite execution accuracy) or `bird`. What the
 * query does wrong is reward 0; a database that cannot be read is an error.
 */

import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { runPolicySql, runSql } from '../../agents/tools/sql/sql-pool.ts';
import type { SqlDatabase, SqlOutcome, SqlRow } from '../../agents/tools/sql/sql-request.ts';
import { codeOf, mapCode } from '../../agents/tools/sql/sql-text.ts';
import { sameBag, sameSet } from './same-result.ts';

export const VERDICTS = ['skyrl', 'spider', 'bird'] as const;
export type VerdictName = (typeof VERDICTS)[number];

/** Rows and bytes of a result that a grader compares. */
const COMPARED = { rows: 200_000, bytes: 64 << 20 } as const;

export interface SqlGrading {
  readonly verdict: VerdictName;
  readonly database: SqlDatabase;
  /** Each of them is right. */
  readonly golds: readonly string[];
  /** Of one query. */
  readonly seconds: number;
  /** `spider`: false removes DISTINCT from both queries, as the test suites do by default. */
  readonly keepDistinct: boolean;
  readonly signal: AbortSignal;
}

/** `right` and `wrong` are the query's; `bad-gold` is the data's, `unknown` the machine's or the data's. */
export interface SqlGrade {
  readonly grade: 'right' | 'wrong' | 'bad-gold' | 'unknown';
  readonly reason: string;
}

/** As Spider's evaluation changes queries before it runs them. */
export function spiderQuery(sql: string, keepDistinct: boolean): string {
  return mapCode(sql, (code) => {
    const joined = code
      .replaceAll('> =', '>=')
      .replaceAll('< =', '<=')
      .replaceAll('! =', '!=')
      .replaceAll(/\byear\s*\(\s*curdate\s*\(\s*\)\s*\)/giu, '2020');
    return keepDistinct ? joined : joined.replaceAll(/\bdistinct\b(?!\s+from\b)/giu, '');
  });
}

/** True if a gold query says an order, anywhere. */
export const isOrdered = (gold: string): boolean => /\border\s+by\b/iu.test(codeOf(gold));

/** The databases on which both queries must agree. Spider's test suites have several files in a folder. */
async function databasesOf({ verdict, database }: SqlGrading): Promise<SqlDatabase[]> {
  if (verdict !== 'spider' || 'script' in database) return [database];
  const folder = dirname(database.file);
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sqlite')).toSorted();
  return names.map((name) => ({ file: join(folder, name) }));
}

type Rows = Extract<SqlOutcome, { readonly kind: 'rows' }>;

function problemOf(outcome: SqlOutcome, seconds: number): string | undefined {
  if (outcome.kind === 'error') return `fails: ${outcome.message}`;
  if (outcome.kind === 'timeout') return `did not end in ${seconds} seconds`;
  if (outcome.kind === 'memory') return 'took too much memory';
  if (!outcome.isQuery) return 'returns no columns';
  return outcome.more ? `has more than ${COMPARED.rows} rows, or ${COMPARED.bytes >> 20} MiB` : undefined;
}

class Grader {
  readonly #grading: SqlGrading;

  constructor(grading: SqlGrading) {
    this.#grading = grading;
  }

  /** Compares with one gold query. */
  async grade(sql: string, gold: string): Promise<SqlGrade> {
    for (const database of await databasesOf(this.#grading)) {
      const grade = await this.#on(database, sql, gold);
      if (grade.grade !== 'right') return grade;
    }
    return { grade: 'right', reason: 'the result is the gold one' };
  }

  async #on(database: SqlDatabase, sql: string, gold: string): Promise<SqlGrade> {
    const { seconds } = this.#grading;
    const wanted = await this.#run(runSql, database, gold);
    const badGold = problemOf(wanted, seconds);
    if (badGold !== undefined) {
      const isError = wanted.kind === 'error' || (wanted.kind === 'rows' && !wanted.isQuery);
      return { grade: isError ? 'bad-gold' : 'unknown', reason: `the gold query ${badGold}` };
    }
    const given = await this.#run(runPolicySql, database, sql);
    const problem = problemOf(given, seconds);
    if (problem !== undefined) return { grade: 'wrong', reason: `the query ${problem}` };
    const rowsOf = (outcome: SqlOutcome): readonly SqlRow[] => (outcome as Rows).rows;
    return this.#isSame(rowsOf(wanted), rowsOf(given), gold)
      ? { grade: 'right', reason: 'the result is the gold one' }
      : {
          grade: 'wrong',
          reason: `the result differs: ${rowsOf(given).length} rows, gold has ${rowsOf(wanted).length}`,
        };
  }

  #isSame(wanted: readonly SqlRow[], given: readonly SqlRow[], gold: string): boolean {
    return this.#grading.verdict === 'spider' ? sameBag(wanted, given, isOrdered(gold)) : sameSet(wanted, given);
  }

  #run(by: typeof runSql, database: SqlDatabase, text: string): Promise<SqlOutcome> {
    const { verdict, seconds, keepDistinct, signal } = this.#grading;
    const isSpider = verdict === 'spider';
    const sql = isSpider ? spiderQuery(text, keepDistinct) : text;
    return by({ database, sql, limits: { ...COMPARED, seconds }, distinct: !isSpider }, signal);
  }
}

/**
 * The best grade over the gold queries: a broken one does not count beside another that works.
 * Errors: those of `runSql`.
 */
export async function gradeSql(sql: string, grading: SqlGrading): Promise<SqlGrade> {
  const grader = new Grader(grading);
  const grades: SqlGrade[] = [];
  for (const gold of grading.golds) {
    const grade = await grader.grade(sql, gold);
    if (grade.grade === 'right') return grade;
    grades.push(grade);
  }
  const first = (['wrong', 'unknown', 'bad-gold'] as const)
    .map((name) => grades.find(({ grade }) => grade === name))
    .find((grade) => grade !== undefined);
  return first ?? { grade: 'bad-gold', reason: 'there is no gold query' };
}
