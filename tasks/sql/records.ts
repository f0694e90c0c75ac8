/**
 * Records of text-to-SQL in four forms: SkyRL-SQL's rows, Spider's questions, BIRD's, and those of Defog's sql-eval.
 * Each becomes the same question.
 */

import { z } from 'zod';
import { splitStatements } from '../../agents/tools/sql/sql-text.ts';
import type { Message } from '../../protocol/message.ts';
import { LAYOUTS, type Layout } from './databases.ts';

export const FORMATS = ['skyrl', 'spider', 'bird', 'defog'] as const;
export type Format = (typeof FORMATS)[number];

export interface SqlQuestion {
  readonly database: string;
  /** Absent: the option's. */
  readonly layout?: Layout;
  /** At least one. Each is right. */
  readonly golds: readonly string[];
  /** The first messages, or what they are made of. */
  readonly asked:
    | { readonly messages: readonly Message[] }
    | { readonly question: string; readonly hint?: string; readonly schema?: string };
  readonly maxTurns?: number;
  readonly family?: string;
}

const text = z.string().min(1, 'give a text');
const optionalText = z.string().nullish();

const given = <Name extends string>(name: Name, value: string | null | undefined): Partial<Record<Name, string>> =>
  typeof value === 'string' && value.trim() !== '' ? ({ [name]: value } as Record<Name, string>) : {};

const message = z.object({ role: z.enum(['system', 'user']), content: z.string() });
const golds = z.union([text.transform((one) => [one]), z.array(text).min(1)], 'give the gold query, or a list of them');
const skyrlRow = z.object({
  prompt: z.union(
    [text.transform((content): Message[] => [{ role: 'user', content }]), z.array(message).min(1)],
    'give a text, or a list of messages of system and user',
  ),
  db_id: text,
  data: z.enum(LAYOUTS, `give one of ${LAYOUTS.join(', ')}`).nullish(),
  env_class: z.literal('text2sql', 'the row is of another environment than text2sql').nullish(),
  reward_spec: z.object({ ground_truth: golds }),
  max_turns: z.int().min(1).max(1000).nullish(),
});

const skyrl = skyrlRow.transform(
  ({ prompt, db_id: database, data, reward_spec, max_turns: maxTurns }): SqlQuestion => ({
    database,
    golds: reward_spec.ground_truth,
    asked: { messages: prompt },
    ...(typeof data === 'string' && { layout: data }),
    ...(typeof maxTurns === 'number' && { maxTurns }),
  }),
);

const spider = z
  .object({ db_id: text, question: text, query: text })
  .transform(({ db_id: database, question, query }): SqlQuestion => ({
    database,
    golds: [query],
    asked: { question },
  }));

const birdRow = z.object({
  db_id: text,
  question: text,
  SQL: optionalText,
  gt_sql: optionalText,
  query: optionalText,
  evidence: optionalText,
  sql_context: optionalText,
  difficulty: optionalText,
});
const bird = birdRow.transform((row, context): SqlQuestion => {
  const gold = row.SQL ?? row.gt_sql ?? row.query ?? '';
  if (gold.trim() === '') context.addIssue({ code: 'custom', path: ['SQL'], message: 'give the gold query' });
  const asked = { question: row.question, ...given('hint', row.evidence), ...given('schema', row.sql_context) };
  return { database: row.db_id, golds: [gold], asked, ...given('family', row.difficulty) };
});

const defogRow = z.object({
  db_name: text,
  question: text,
  query: text,
  instructions: optionalText,
  query_category: optionalText,
});
const defog = defogRow.transform((row, context): SqlQuestion => {
  const queries = splitStatements(row.query);
  if (queries.length === 0) context.addIssue({ code: 'custom', path: ['query'], message: 'give the gold query' });
  const asked = { question: row.question, ...given('hint', row.instructions) };
  return { database: row.db_name, golds: queries, asked, ...given('family', row.query_category) };
});

const SCHEMAS: Readonly<Record<Format, z.ZodType<SqlQuestion>>> = { skyrl, spider, bird, defog };
/** The field that names the database. */
export const DATABASE_FIELD: Readonly<Record<Format, string>> = {
  skyrl: 'db_id',
  spider: 'db_id',
  bird: 'db_id',
  defog: 'db_name',
};

/** The schema of a record. `check` returns what is wrong with a question's database, if anything. */
export const recordSchema = (
  format: Format,
  check: (question: SqlQuestion) => { readonly field: string; readonly problem: string } | undefined,
): z.ZodType<SqlQuestion> =>
  SCHEMAS[format].superRefine((question, context) => {
    const wrong = check(question);
    if (wrong !== undefined) context.addIssue({ code: 'custom', path: [wrong.field], message: wrong.problem });
  });
