/**
 * The environment `text2sql`: questions about SQLite databases, answered by a query. Records are files; each names a
 * database below one folder.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { type Dataset, type Environment, type EnvironmentIo, type Task } from '../environment.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import { databasePath, isDatabase, LAYOUTS, type Layout, schemaOf, versionOf } from './databases.ts';
import { askedText, readSpiderTables } from './prompt.ts';
import { DATABASE_FIELD, FORMATS, recordSchema, type SqlQuestion } from './records.ts';
import { sqlTask, sqlOptions } from './task.ts';

const options = z.strictObject({
  ...recordOptions,
  ...sqlOptions,
  /** The form of the records. */
  format: z.enum(FORMATS).default('skyrl'),
  /** The folder of databases. */
  databases: z.string().min(1),
  /** Where a database is below it. Absent: by the record's `data`, else `plain`: `ID/ID.sqlite`. */
  layout: z.enum(LAYOUTS).optional(),
  /** Spider's `tables.json`, for the schema in the prompt. Absent: the database's own statements. */
  tables: z.string().min(1).optional(),
});
type Options = z.output<typeof options>;

class Questions {
  readonly #options: Options;
  readonly #root: string;
  readonly #schemas: ReadonlyMap<string, string>;
  readonly #io: EnvironmentIo;
  /** The databases that records name: path below the root, and absolute. */
  readonly files = new Map<string, string>();

  /** Errors of its methods: those of `io.path`. */
  constructor(given: Options, root: string, schemas: ReadonlyMap<string, string>, io: EnvironmentIo) {
    this.#io = io;
    this.#options = given;
    this.#root = root;
    this.#schemas = schemas;
  }

  #pathOf(question: SqlQuestion): string | undefined {
    const layout: Layout = this.#options.layout ?? question.layout ?? 'plain';
    return databasePath(question.database, layout);
  }

  check(question: SqlQuestion): { readonly field: string; readonly problem: string } | undefined {
    const field = DATABASE_FIELD[this.#options.format];
    const path = this.#pathOf(question);
    if (path === undefined)
      return { field, problem: `${JSON.stringify(question.database)} cannot be the name of a database` };
    if (this.files.has(path)) return undefined;
    const file = join(this.#root, path);
    if (!isDatabase(file)) return { field, problem: `there is no database ${file}` };
    // The file may be a link to a place that may not be read.
    this.#io.path(`databases, ${path}`, file);
    this.files.set(path, file);
    return undefined;
  }

  async task(question: SqlQuestion): Promise<Task> {
    const { protocol, verdict, keepDistinct, maxTurns, querySeconds, gradeSeconds } = this.#options;
    const name = this.#pathOf(question) ?? '';
    const turns = question.maxTurns ?? maxTurns;
    return sqlTask({
      messages: await this.#messages(question, turns),
      database: { file: join(this.#root, name) },
      name,
      golds: question.golds,
      protocol,
      maxTurns: turns,
      seconds: { query: querySeconds, grade: gradeSeconds },
      verdict,
      keepDistinct,
      ...(question.family !== undefined && { family: question.family }),
    });
  }

  async #messages(question: SqlQuestion, turns: number): Promise<SqlMessages> {
    const { asked, database } = question;
    if ('messages' in asked) return asked.messages;
    const file = join(this.#root, this.#pathOf(question) ?? '');
    const schema = asked.schema ?? this.#schemas.get(database) ?? (await schemaOf({ file }));
    return [{ role: 'user', content: askedText({ ...asked, schema }, this.#options.protocol, turns) }];
  }
}
type SqlMessages = Task['messages'];

async function open(given: Options, io: EnvironmentIo): Promise<Dataset> {
  const root = io.path('databases', given.databases);
  const schemas = given.tables === undefined ? undefined : await readSpiderTables(io.path('tables', given.tables));
  const questions = new Questions(given, root, schemas ?? new Map(), io);
  const schema = recordSchema(given.format, (question) => questions.check(question));
  const dataset = await openRecords(given, io, schema, (question) => questions.task(question));
  const versions = [...questions.files].map(([path, file]) => `${path} ${versionOf(file)}`).toSorted();
  const parts = [dataset.digest, versions, [...(schemas ?? [])]];
  return { ...dataset, digest: createHash('sha256').update(JSON.stringify(parts)).digest('hex') };
}

export const text2sql: Environment<Options> = { name: 'text2sql', options, open };
