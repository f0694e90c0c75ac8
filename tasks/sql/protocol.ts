/**
 * SkyRL's protocol of text-to-SQL: the policy thinks in `<think>`, asks the database in `<sql>`, and answers in
 * `<solution>`; the environment answers in `<observation>`. Everything here takes time in proportion to the text.
 */

import { dataFrameText } from '../../agents/tools/sql/data-frame.ts';
import type { SqlOutcome } from '../../agents/tools/sql/sql-request.ts';
import { PYTHON_SPACE, stripped } from '../../protocol/python-text.ts';

/** The query of a message; `undefined` if it has none. */
export function sqlIn(message: string): string | undefined {
  const start = message.indexOf('<sql>');
  const end = start < 0 ? -1 : message.indexOf('</sql>', start);
  return end < 0 ? undefined : message.slice(start + '<sql>'.length, end);
}

export const hasSolution = (message: string): boolean =>
  message.includes('<solution>') && message.includes('</solution>');

const partsAround = (text: string, tag: string): string[] => text.split(tag);

/** As Python ignores case: the dotless and the dotted i of Turkish are an `i`. */
const FORBIDDEN = /<\/?(?:th[iİı]nk|sql|observat[iİı]on)(?![\p{L}\p{N}_])/iu;
const OBSERVED_END = /<\/observat[iİı]on>/giu;
const THINKS = new RegExp(`[${PYTHON_SPACE}]*<think>`, 'iuy');

/**
 * The solution in all that was said (the policy's messages and the observations, joined); `undefined` if the form is
 * wrong. Right is: one `<solution>`, one `</solution>` after it, no other tag between them, at least one
 * `<think>…</think>`, and a `<think>` after each `</observation>` before the solution.
 */
export function solutionIn(said: string): string | undefined {
  const [before = '', tail, ...moreStarts] = partsAround(said, '<solution>');
  if (tail === undefined || moreStarts.length > 0) return undefined;
  const [solution = '', rest, ...moreEnds] = partsAround(tail, '</solution>');
  if (rest === undefined || moreEnds.length > 0) return undefined;
  if (FORBIDDEN.test(solution)) return undefined;
  const thought = said.indexOf('<think>');
  if (thought < 0 || !said.includes('</think>', thought)) return undefined;
  for (const { index, 0: end } of before.matchAll(OBSERVED_END)) {
    THINKS.lastIndex = index + end.length;
    if (!THINKS.test(before)) return undefined;
  }
  return stripped(solution);
}

/** Without tags: the form is checked in all that was said, this text included. */
const NO_SQL =
  'Your message has no query. Write your thoughts and then one query, or the solution, each between its tags, ' +
  'and try again.';

/** Characters of a result that is shown whole, rows of one that is not, and characters of those rows. */
const [LONGEST, SHOWN_ROWS, LONGEST_ROWS] = [9000, 50, 60_000];

/** More rows than these are too long to show in any case, since each takes two characters at least. */
export const OBSERVED = { rows: LONGEST / 2 + 1, bytes: 4 << 20 } as const;

/** `file`: the database's name to the policy. */
function resultText(outcome: SqlOutcome, sql: string, file: string): string {
  const failed = (reason: string): string => `Error executing SQL: ${reason}, db file: ${file}`;
  switch (outcome.kind) {
    case 'timeout':
      return `SQL Timeout:\n${sql}`;
    case 'error':
      return failed(outcome.message);
    case 'memory':
      return failed('out of memory');
    case 'rows': {
      const { rows, more } = outcome;
      if (more && rows.length === 0) return failed('string or blob too big');
      const whole = more ? undefined : dataFrameText(rows);
      if (whole !== undefined && Array.from(whole).length <= LONGEST) return whole;
      const first = dataFrameText(rows.slice(0, SHOWN_ROWS));
      return `Truncated to 50 lines since returned response too long: ${first.slice(0, LONGEST_ROWS)}`;
    }
  }
}

/** The environment's answer. `result`: of the query `sql`; absent: the message had none. `left`: turns. */
export function observation(
  result: { outcome: SqlOutcome; sql: string; file: string } | undefined,
  left: number,
): string {
  const text = result === undefined ? NO_SQL : resultText(result.outcome, result.sql, result.file);
  return (
    `\n\n<observation>${text}\n<reminder>You have ${left} turns left to complete the ` +
    `task.</reminder></observation>\n\n`
  );
}

/** A message of the policy: a query to learn something, or the solution. */
export interface Turn {
  readonly thought: string;
  readonly kind: 'sql' | 'solution';
  readonly query: string;
}

export const textOf = ({ thought, kind, query }: Turn): string =>
  `<think>${thought}</think><${kind}>${query}</${kind}>`;
