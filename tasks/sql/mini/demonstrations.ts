/**
 * Scripted answers to a problem of `text2sql-mini`. Whether one is right depends only on the problem, the quality that
 * is asked for, and a variant number.
 */

import { createRandom } from '../../random.ts';
import type { Turn } from '../protocol.ts';
import { legendQuery, type MiniProblem } from './problem.ts';

/** `clean`: all are right. `mixed`: some of them guess a column, without asking what the word means. */
export const QUALITIES = ['clean', 'mixed'] as const;
export type Quality = (typeof QUALITIES)[number];

/** Share of guesses in the quality `mixed`. One in four guesses is right, or one in sixteen. */
const GUESSES = 0.7;
const COLUMNS = ['a', 'b', 'c', 'd'] as const;

/** Asks what each word of the question means, then answers. */
export function rightTurns({ meanings, gold }: MiniProblem): Turn[] {
  const asked = meanings.map(({ word }): Turn => ({ thought: word, kind: 'sql', query: legendQuery(word) }));
  const thought = meanings.map(({ word, column }) => `${word} is ${column}`).join(', ');
  return [...asked, { thought, kind: 'solution', query: gold }];
}

export function demonstrate(problem: MiniProblem, quality: Quality, variant: number): Turn[] {
  const random = createRandom(`text2sql-mini/demonstration/${problem.question}/${problem.gold}/${variant}`);
  if (quality === 'clean' || !random.chance(GUESSES)) return rightTurns(problem);
  const columns = problem.meanings.map(() => random.pick(COLUMNS));
  const thought = problem.meanings.map(({ word }, i) => `${word} is ${columns[i]}`).join(', ');
  return [{ thought, kind: 'solution', query: problem.queryFor(columns) }];
}
