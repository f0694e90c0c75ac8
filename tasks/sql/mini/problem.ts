/**
 * Problems of `text2sql-mini`: a small database whose columns have letters for names, and a question in words. Which
 * column a word means is in the table `legend` alone, so that the policy must ask before it answers. A problem depends
 * on its split and index only.
 */

import { createRandom, type Random } from '../../random.ts';

const TABLES = ['crew', 'team', 'club', 'band', 'farm', 'ship', 'shop', 'zoo'] as const;
const NAMES =
  'Ann Bob Cleo Dan Eva Finn Gus Hana Ida Jack Kim Leo Mia Nils Ole Pia Quin Rosa Sam Tess Udo Vera Will Zoe'.split(
    ' ',
  );
const WORDS = ['age', 'height', 'weight', 'speed', 'score', 'rank', 'pay', 'debt', 'size', 'power'] as const;
const COLUMNS = ['a', 'b', 'c', 'd'] as const;
const ROWS = { least: 5, most: 8 } as const;
const HIGHEST = 60;

export const FAMILIES = ['value', 'count', 'above', 'largest', 'total', 'of-largest'] as const;
export type Family = (typeof FAMILIES)[number];
type Column = (typeof COLUMNS)[number];
type Word = (typeof WORDS)[number];

interface Person {
  readonly name: string;
  readonly values: Readonly<Record<Column, number>>;
}

export interface MiniProblem {
  readonly family: Family;
  readonly table: string;
  /** The statements that make the database. */
  readonly script: string;
  readonly question: string;
  /** What the question's words mean, in their order. */
  readonly meanings: ReadonlyArray<{ readonly word: Word; readonly column: Column }>;
  /** The right query, if the words mean these columns. */
  readonly queryFor: (columns: readonly Column[]) => string;
  readonly gold: string;
}

/** The query that asks what a word means. */
export const legendQuery = (word: string): string => `SELECT col FROM legend WHERE word = '${word}'`;

function peopleOf(random: Random): Person[] {
  const names = random.shuffle(NAMES).slice(0, random.integer(ROWS.least, ROWS.most));
  // No value is in a column twice: the largest one is one.
  const values = COLUMNS.map(() => random.shuffle(Array.from({ length: HIGHEST }, (_, i) => i + 1)));
  return names.map((name, row) => ({
    name,
    values: Object.fromEntries(COLUMNS.map((column, i) => [column, values[i]?.[row] ?? 0])) as Person['values'],
  }));
}

function scriptOf(table: string, people: readonly Person[], legend: ReadonlyArray<readonly [Word, Column]>): string {
  const rows = people.map(({ name, values }) => `('${name}', ${COLUMNS.map((column) => values[column]).join(', ')})`);
  const meanings = legend.map(([word, column]) => `('${word}', '${column}')`);
  return [
    `CREATE TABLE ${table} (name TEXT, ${COLUMNS.map((column) => `${column} INTEGER`).join(', ')});`,
    `INSERT INTO ${table} VALUES ${rows.join(', ')};`,
    'CREATE TABLE legend (word TEXT, col TEXT);',
    `INSERT INTO legend VALUES ${meanings.join(', ')};`,
  ].join('\n');
}

interface Asked {
  readonly question: string;
  readonly queryFor: (columns: readonly Column[]) => string;
  /** What the query gives, to compare meanings without a database. */
  readonly resultFor: (columns: readonly Column[]) => unknown;
}

const largestBy = (people: readonly Person[], column: Column): Person | undefined =>
  people.toSorted((one, other) => other.values[column] - one.values[column])[0];

/** A value of the column that divides the rows. */
function middleOf(people: readonly Person[], column: Column, random: Random): number {
  const values = people.map(({ values: all }) => all[column]).toSorted((one, other) => one - other);
  return values[random.integer(1, values.length - 2)] ?? 0;
}

function ask(
  family: Family,
  table: string,
  people: readonly Person[],
  words: readonly Word[],
  right: readonly Column[],
  random: Random,
): Asked {
  const [word = '?', other = '?'] = words;
  const first = ([column = 'a']: readonly Column[]): Column => column;
  const { name } = random.pick(people);
  const limit = middleOf(people, first(right), random);
  const over = (columns: readonly Column[]): Person[] => people.filter(({ values }) => values[first(columns)] > limit);
  switch (family) {
    case 'value':
      return {
        question: `What is the ${word} of ${name}?`,
        queryFor: (columns) => `SELECT ${first(columns)} FROM ${table} WHERE name = '${name}'`,
        resultFor: (columns) => people.find((one) => one.name === name)?.values[first(columns)],
      };
    case 'count':
      return {
        question: `How many have ${word} over ${limit}?`,
        queryFor: (columns) => `SELECT count(*) FROM ${table} WHERE ${first(columns)} > ${limit}`,
        resultFor: (columns) => over(columns).length,
      };
    case 'above':
      return {
        question: `Whose ${word} is over ${limit}?`,
        queryFor: (columns) => `SELECT name FROM ${table} WHERE ${first(columns)} > ${limit}`,
        resultFor: (columns) =>
          over(columns)
            .map((one) => one.name)
            .toSorted((a, b) => (a < b ? -1 : 1)),
      };
    case 'largest':
      return {
        question: `Who has the largest ${word}?`,
        queryFor: (columns) => `SELECT name FROM ${table} ORDER BY ${first(columns)} DESC LIMIT 1`,
        resultFor: (columns) => largestBy(people, first(columns))?.name,
      };
    case 'total':
      return {
        question: `What is the total ${word}?`,
        queryFor: (columns) => `SELECT sum(${first(columns)}) FROM ${table}`,
        resultFor: (columns) => people.reduce((sum, { values }) => sum + values[first(columns)], 0),
      };
    case 'of-largest':
      return {
        question: `What is the ${word} of who has the largest ${other}?`,
        queryFor: ([column = 'a', by = 'a']) => `SELECT ${column} FROM ${table} ORDER BY ${by} DESC LIMIT 1`,
        resultFor: ([column = 'a', by = 'a']) => largestBy(people, by)?.values[column],
      };
  }
}

/** Every choice of columns but the right one. */
function wrongChoices(right: readonly Column[]): Column[][] {
  const choices =
    right.length === 1 ? COLUMNS.map((one) => [one]) : COLUMNS.flatMap((one) => COLUMNS.map((by) => [one, by]));
  return choices.filter((columns) => columns.some((column, i) => column !== right[i]));
}

const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

/** A wrong meaning never gives the right result: such a draw is drawn again. */
export function makeMiniProblem(split: string, index: number): MiniProblem {
  const random = createRandom(`text2sql-mini/${split}/${index}`);
  const family = random.pick(FAMILIES);
  for (;;) {
    const table = random.pick(TABLES);
    const people = peopleOf(random);
    const columns = random.shuffle(COLUMNS);
    const legend = random
      .shuffle(WORDS)
      .slice(0, COLUMNS.length)
      .map((word, i) => [word, columns[i] ?? 'a'] as const);
    const meant = legend.slice(0, family === 'of-largest' ? 2 : 1);
    const right = meant.map(([, column]) => column);
    const words = meant.map(([word]) => word);
    const asked = ask(family, table, people, words, right, random);
    const wanted = asked.resultFor(right);
    if (wrongChoices(right).some((choice) => same(asked.resultFor(choice), wanted))) continue;
    return {
      family,
      table,
      script: scriptOf(table, people, random.shuffle(legend)),
      question: asked.question,
      meanings: meant.map(([word, column]) => ({ word, column })),
      queryFor: asked.queryFor,
      gold: asked.queryFor(right),
    };
  }
}
