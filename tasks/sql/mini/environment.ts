/**
 * The environment `text2sql-mini`: questions about small databases that are made with the task, graded as those of
 * `text2sql`. It needs no files.
 */

import { z } from 'zod';
import type { Environment, Task } from '../../environment.ts';
import { sqlTask, sqlOptions } from '../task.ts';
import { rightTurns } from './demonstrations.ts';
import { makeMiniProblem } from './problem.ts';

const options = z.strictObject({ ...sqlOptions, maxTurns: sqlOptions.maxTurns.default(4) });
type Options = z.output<typeof options>;

/** Indices have nine digits at most. */
const SIZE = 1_000_000_000;

function taskOf(split: string, index: number, given: Options): Task {
  const { protocol, maxTurns, querySeconds, gradeSeconds, verdict, keepDistinct } = given;
  const problem = makeMiniProblem(split, index);
  const { family, table, script, question, gold } = problem;
  const how =
    protocol === 'skyrl'
      ? '<think> first, then <sql> to ask, or <solution>.'
      : 'Ask with sql, then finish with the query.';
  return sqlTask({
    messages: [{ role: 'user', content: `${table}(name, a, b, c, d), legend(word, col).\n${how}\n${question}` }],
    database: { script },
    name: `${table}.sqlite`,
    golds: [gold],
    protocol,
    maxTurns,
    seconds: { query: querySeconds, grade: gradeSeconds },
    verdict,
    keepDistinct,
    family,
    turns: rightTurns(problem),
  });
}

export const text2sqlMini = {
  name: 'text2sql-mini',
  options,

  async open(given) {
    return await Promise.resolve({
      digest: 'text2sql-mini 1',
      splits: { train: SIZE, 'held-out': SIZE },
      load: async (split: string, index: number) => await Promise.resolve(taskOf(split, index, given)),
    });
  },
} satisfies Environment<Options>;
