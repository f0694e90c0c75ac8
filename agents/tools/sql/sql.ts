/**
 * `sql`: runs one statement that reads a SQLite database of the task, in a process that is killed at the time limit.
 * The policy's mistakes are observations: an error of SQLite, a query that takes too long, too many rows.
 */

import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';
import { dataFrameText } from './data-frame.ts';
import { runPolicySql } from './sql-pool.ts';
import type { SqlOutcome } from './sql-request.ts';

const NO_DATABASE = 'give the database: its absolute path as file, or the statements that make it as script';

const database = z.union(
  [
    z.strictObject({ file: z.string().refine(isAbsolute, 'give an absolute path') }),
    z.strictObject({ script: z.string().max(1 << 20) }),
  ],
  NO_DATABASE,
);

const options = z.strictObject({
  /** An absolute path (an environment's `io.path`), or the statements that make a small database in memory. */
  database,
  /** Of one query. */
  seconds: z.number().min(0.1).max(300).default(5),
  /** Rows that the policy is shown. */
  rows: z.int().min(1).max(10_000).default(50),
});

/** Bytes that a shown result may take in the worker. */
const BYTES = 4 << 20;

const count = (rows: number): string => (rows === 1 ? '1 row' : `${rows} rows`);

function observed(outcome: SqlOutcome, seconds: number): string {
  switch (outcome.kind) {
    case 'rows':
      if (!outcome.isQuery) return 'Error: the text has no statement; give one SELECT.';
      if (outcome.rows.length === 0)
        return `${outcome.more ? 'The rows are too large to show' : 'No rows'}. Columns: ${outcome.columns.join(', ')}`;
      return (
        `${dataFrameText(outcome.rows, outcome.columns)}\n` +
        `(${outcome.more ? `the first ${count(outcome.rows.length)}; there are more` : count(outcome.rows.length)})`
      );
    case 'error':
      return outcome.message.startsWith('not authorized')
        ? `Error: ${outcome.message}. The database is read only; give one SELECT.`
        : `Error: ${outcome.message}`;
    case 'timeout':
      return `Error: the query did not end in ${seconds} seconds.`;
    case 'memory':
      return 'Error: the query took too much memory.';
  }
}

export const sql = makeTool({
  name: 'sql',
  description: 'Runs one SQL query on the SQLite database, which is read only, and returns its rows.',
  parameters: { query: { type: 'string', description: 'One SELECT statement.' } },
  required: ['query'],
  runs: 'worker',
  effect: 'none',
  options,
  async run(args, { options: { database: source, seconds, rows }, maxCharacters = DEFAULT_MAX_CHARACTERS, signal }) {
    const query = { database: source, sql: args.text('query'), limits: { seconds, rows, bytes: BYTES } };
    return truncateMiddle(observed(await runPolicySql(query, signal), seconds), maxCharacters);
  },
});
