/** A task of text-to-SQL: a database, gold queries, and one of two protocols; the answer is a query. */

import { z } from 'zod';
import { runPolicySql } from '../../agents/tools/sql/sql-pool.ts';
import type { SqlDatabase } from '../../agents/tools/sql/sql-request.ts';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import type { Task, Work } from '../environment.ts';
import { hasSolution, OBSERVED, observation, solutionIn, sqlIn, textOf, type Turn } from './protocol.ts';
import { gradeSql, type VerdictName, VERDICTS } from './verdicts.ts';

const seconds = z.number().min(0.1).max(300);

/** What may be set of every environment of text-to-SQL: how the policy answers, and how its answer is graded. */
export const sqlOptions = {
  /** `skyrl`: tags in messages, answered by `step`. `tool`: the tools `sql` and `finish`. */
  protocol: z.enum(['skyrl', 'tool']).default('skyrl'),
  verdict: z.enum(VERDICTS).default('skyrl'),
  /** With the verdict `spider`: DISTINCT counts. */
  keepDistinct: z.boolean().default(false),
  /** With the protocol `skyrl`; a record's `max_turns` goes before it. */
  maxTurns: z.int().min(1).max(1000).default(5),
  /** Of one query of the policy, and of one that is graded. */
  querySeconds: seconds.default(5),
  gradeSeconds: seconds.default(30),
};

export interface SqlTask {
  readonly messages: readonly Message[];
  readonly database: SqlDatabase;
  /** The database's name to the policy. */
  readonly name: string;
  readonly golds: readonly string[];
  /** `skyrl`: tags in messages. `tool`: the tools `sql` and `finish`. */
  readonly protocol: 'skyrl' | 'tool';
  readonly maxTurns: number;
  /** Of a query of the policy, and of one that is graded. */
  readonly seconds: { readonly query: number; readonly grade: number };
  readonly verdict: VerdictName;
  readonly keepDistinct: boolean;
  readonly family?: string;
  /** What a policy that solves the task writes. Absent: the first gold query at once. */
  readonly turns?: readonly Turn[];
}

interface State {
  readonly turns: number;
}

/** All that the policy and the environment said after the task's own messages. */
function saidAfter(opening: readonly Message[], { transcript }: Work): string {
  return transcript
    .slice(opening.length)
    .map(({ content }) => content)
    .join('');
}

/** SkyRL's reward of a wrong form. */
const WRONG_FORM = -1;

async function gradeAnswer(
  { verdict, database, golds, seconds, keepDistinct }: SqlTask,
  answer: string | undefined,
  signal: AbortSignal,
): Promise<Verdict> {
  if (answer === undefined) {
    const reward = verdict === 'skyrl' ? WRONG_FORM : 0;
    return {
      code: 'graded',
      reward,
      passed: false,
      reason: 'there is no solution in the right form',
      parts: { format: 0, outcome: 0 },
    };
  }
  const { grade, reason } = await gradeSql(answer, {
    verdict,
    database,
    golds,
    seconds: seconds.grade,
    keepDistinct,
    signal,
  });
  // SkyRL grades a broken gold query as wrong. Elsewhere it says nothing about the answer.
  if (grade === 'unknown' || (grade === 'bad-gold' && verdict !== 'skyrl')) return { code: 'grader-failed', reason };
  const passed = grade === 'right';
  return { code: 'graded', reward: passed ? 1 : 0, passed, reason, parts: { format: 1, outcome: passed ? 1 : 0 } };
}

const turnsOf = ({ turns, golds }: SqlTask): readonly Turn[] =>
  turns ?? [{ thought: 'I know the query.', kind: 'solution', query: golds[0] ?? '' }];

function inTags(task: SqlTask): Task {
  const { messages, database, name, maxTurns, seconds } = task;
  return {
    messages,
    tools: [],
    agent: { type: 'text' },
    gradedIn: 'none',

    async step({ signal }, state, message) {
      const turns = ((state as State | undefined)?.turns ?? 0) + 1;
      const next: State = { turns };
      if (hasSolution(message) || turns >= maxTurns) return { state: next, messages: [], done: true };
      const sql = sqlIn(message);
      const limits = { seconds: seconds.query, ...OBSERVED };
      const result =
        sql === undefined
          ? undefined
          : {
              sql,
              file: name,
              outcome: await runPolicySql({ database, sql, limits, distinct: true, writes: 'discard' }, signal),
            };
      return { state: next, messages: [{ role: 'user', content: observation(result, maxTurns - turns) }] };
    },

    grade: ({ signal }, work) => gradeAnswer(task, solutionIn(saidAfter(messages, work)), signal),

    oracle: async () =>
      await Promise.resolve(turnsOf(task).map((turn) => ({ role: 'assistant', content: textOf(turn) }))),
  };
}

function withTools(task: SqlTask): Task {
  const { messages, database, seconds } = task;
  return {
    messages,
    tools: [{ name: 'sql', options: { database, seconds: seconds.query } }, 'finish'],
    gradedIn: 'none',

    grade: ({ signal }, { finish, answer }) =>
      gradeAnswer(task, finish === 'finish-tool' && answer.trim() !== '' ? answer : undefined, signal),

    oracle: async () =>
      await Promise.resolve(
        turnsOf(task).map(({ kind, query }) => {
          const call =
            kind === 'sql' ? { name: 'sql', arguments: { query } } : { name: 'finish', arguments: { answer: query } };
          return { role: 'assistant', content: '', toolCalls: [call] };
        }),
      ),
  };
}

export function sqlTask(task: SqlTask): Task {
  const made = task.protocol === 'skyrl' ? inTags(task) : withTools(task);
  return task.family === undefined ? made : { ...made, family: task.family };
}
