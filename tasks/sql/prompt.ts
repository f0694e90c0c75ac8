/** What the policy is asked, for records that have a question and no messages of their own. */

import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';

const column = z.tuple([z.int(), z.string()]);
/** A database in Spider's `tables.json`. Columns are `[table, name]`; the first one is `*`. */
const spiderTables = z.array(
  z.object({
    db_id: z.string(),
    table_names_original: z.array(z.string()),
    column_names_original: z.array(column),
    column_types: z.array(z.string()),
    primary_keys: z.array(z.union([z.int(), z.array(z.int())])),
    foreign_keys: z.array(z.tuple([z.int(), z.int()])),
  }),
);
type SpiderTables = z.output<typeof spiderTables>[number];

/** One line for each table, then one for each reference. */
function schemaText(database: SpiderTables): string {
  const { table_names_original: tables, column_names_original: columns, column_types: types } = database;
  const keys = new Set(database.primary_keys.flat());
  const nameOf = (index: number): string => {
    const [table, name] = columns[index] ?? [-1, '?'];
    return `${tables[table] ?? '?'}.${name}`;
  };
  const tableLines = tables.map((table, t) => {
    const own = columns.flatMap(([of, name], i) =>
      of === t ? [`${name} ${types[i] ?? 'text'}${keys.has(i) ? ' primary key' : ''}`] : [],
    );
    return `${table} (${own.join(', ')})`;
  });
  return [...tableLines, ...database.foreign_keys.map(([from, to]) => `${nameOf(from)} = ${nameOf(to)}`)].join('\n');
}

/** The schemas of a `tables.json` by database. Errors: `UserInputError`, naming the first database that is wrong. */
export async function readSpiderTables(file: string): Promise<ReadonlyMap<string, string>> {
  const parsed = spiderTables.safeParse(JSON.parse(await readFile(file, 'utf8')) as unknown);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const at = (issue?.path ?? []).join('.');
    throw new UserInputError('task.options.tables', file, `give a tables.json of Spider: ${at}: ${issue?.message}`);
  }
  return new Map(parsed.data.map((database) => [database.db_id, schemaText(database)]));
}

const TAGS = (
  turns: number,
): string => `Write your thoughts in <think> and </think>, before anything else in each message.
Then either ask the database with one SQLite query in <sql> and </sql>; its rows come back in <observation>.
Or answer: the one query that gives what is asked, in <solution> and </solution>. A message with it is your last one.
You have ${turns} turns.`;

const TOOLS =
  'Ask the database with the tool sql. When you know the one query that gives what is asked, ' +
  'call finish with the query as answer.';

/** `hint`: what a data set calls evidence or instructions. */
export function askedText(
  { question, hint, schema }: { readonly question: string; readonly hint?: string; readonly schema: string },
  protocol: 'skyrl' | 'tool',
  turns: number,
): string {
  return [
    'Write a SQLite query that answers the question. It returns the columns that are asked for, and no others.',
    `Schema:\n${schema}`,
    ...(hint === undefined ? [] : [`Hint: ${hint}`]),
    `Question: ${question}`,
    protocol === 'skyrl' ? TAGS(turns) : TOOLS,
  ].join('\n\n');
}
