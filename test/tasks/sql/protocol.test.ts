/** The form of an answer in SkyRL's protocol. Why: a form that is read too kindly, or in quadratic time, is an exploit. */

import { describe, expect, it } from 'vitest';
import type { SqlOutcome } from '../../../agents/tools/sql/sql-request.ts';
import { observation, solutionIn, sqlIn } from '../../../tasks/sql/protocol.ts';

const good = '<think>a</think><solution>SELECT 1</solution>';

describe('the form', () => {
  it.each([
    [good, 'SELECT 1'],
    ['<solution>\n SELECT 1 \n</solution> <think></think>', 'SELECT 1'],
    [`<think>a</think><sql>x</sql>\n<observation>1</observation>\n <THINK>b${good}`, 'SELECT 1'],
    [`${good}</observation> tail`, 'SELECT 1'],
    ['<think>a</think><solution>SELECT 1 <thinker></solution>', 'SELECT 1 <thinker>'],
    ['', undefined],
    ['<solution>SELECT 1</solution>', undefined],
    ['<think>a<solution>SELECT 1</solution>', undefined],
    [`${good}${good}`, undefined],
    [`${good}</solution>`, undefined],
    ['<think>a</think></solution>SELECT 1<solution>', undefined],
    ['<think>a</think><solution>SELECT 1', undefined],
    ['<think>a</think><solution><think>b</think>SELECT 1</solution>', undefined],
    ['<think>a</think><solution>SELECT 1 </SQL></solution>', undefined],
    [`<think>a</think></observation>x${good}`, undefined],
    // White space and case are Python's.
    [`<think>a</think></observation>\u001c\u0085${good}`, 'SELECT 1'],
    [`<think>a</think></observation>\ufeff${good}`, undefined],
    [`<think>a</think></observat\u0131on>${good}`, 'SELECT 1'],
    [`<think>a</think></observat\u0131on>x${good}`, undefined],
    ['<think>a</think><solution>SELECT 1 </Th\u0130nk></solution>', undefined],
    ['<think>a</think><solution>\u001cSELECT 1\ufeff</solution>', 'SELECT 1\ufeff'],
    [`<observation>1</observation><solution>SELECT 1</solution><think></think>`, undefined],
  ])('%j has the solution %j', (text, solution) => {
    expect(solutionIn(text)).toBe(solution);
  });

  it('is found in time in proportion to the text', () => {
    const n = 200_000;
    for (const part of ['<think>', '<solution>', '</observation> ', ' ', '<sql>', '</solution', '<think></think>'])
      expect(solutionIn(`${part.repeat(n)}${good}`.slice(0, 3_000_000))?.length ?? 0).toBeLessThan(100);
    expect(sqlIn('<sql>'.repeat(n))).toBeUndefined();
    expect(sqlIn('a<sql>SELECT 1</sql></sql>')).toBe('SELECT 1');
  });
});

describe('an observation', () => {
  it('without a query is no message that has the right form', () => {
    const hint = observation(undefined, 3);
    expect(hint).toMatch(
      /^\n\n<observation>.+\n<reminder>You have 3 turns left to complete the task\.<\/reminder><\/observation>\n\n$/su,
    );
    expect(hint.replaceAll(/<\/?(?:observation|reminder)>/gu, '')).not.toContain('<');
    expect(solutionIn(hint)).toBeUndefined();
  });

  it('says why there are no rows', () => {
    const answer = (outcome: SqlOutcome) => observation({ outcome, sql: 'SELECT 1', file: 'a/a.sqlite' }, 1);
    expect(answer({ kind: 'timeout' })).toContain('<observation>SQL Timeout:\nSELECT 1\n<reminder>');
    expect(answer({ kind: 'error', message: 'no' })).toContain('Error executing SQL: no, db file: a/a.sqlite\n');
    const rows = Array.from({ length: 60 }, (_, i) => ['x'.repeat(200), BigInt(i)]);
    const shown = answer({ kind: 'rows', isQuery: true, columns: ['a', 'b'], rows, more: false });
    expect(shown).toContain('<observation>Truncated to 50 lines since returned response too long: ');
    expect(shown.trim().split('\n')).toHaveLength(52);
  });
});
