/** Grades the answer to a problem of mathematics: it is found in a message, and compared with the right one. */

import type { Verdict } from '../../protocol/stages.ts';
import { judged } from '../question-records.ts';
import { lastBoxed } from './boxed.ts';
import { equivalent, exactText } from './equivalent.ts';

/** `exact`: the same text but for spaces and size of brackets. `equivalent`: the same meaning. */
export type MathVerdict = 'exact' | 'equivalent';

/** A longer text in place of an answer is none. */
const LONGEST_LINE = 300;
const NAMED = /\banswer {0,3}(?:is|:|=)[ *:]{0,5}([^\n]{1,300})/gi;

/**
 * The answer: what is in the last `\boxed{…}` after the reasoning; else what follows the last `answer is` or `answer:`;
 * else a message of one short line. `undefined`: there is none.
 */
export function answerIn(message: string): string | undefined {
  const thought = message.lastIndexOf('</think>');
  const text = (thought < 0 ? message : message.slice(thought + '</think>'.length)).trim();
  const boxed = lastBoxed(text);
  if (boxed !== undefined) return boxed;
  const [, named] = [...text.matchAll(NAMED)].at(-1) ?? [];
  if (named !== undefined)
    return named
      .replace(/^\$([^$]*)\$.*$/, '$1')
      .replaceAll('**', '')
      .trim();
  return text === '' || text.includes('\n') || text.length > LONGEST_LINE ? undefined : text;
}

export function gradeMath(message: string, gold: string, verdict: MathVerdict): Verdict {
  const said = answerIn(message);
  const right = JSON.stringify(gold);
  if (said === undefined || said.trim() === '')
    return judged(false, `there is no answer, and ${right} is right`, { parts: { format: 0, outcome: 0 } });
  const isExact = exactText(said) === exactText(gold) && exactText(gold) !== '';
  const passed = isExact || (verdict === 'equivalent' && equivalent(gold, said));
  const parts = { format: 1, exact: Number(isExact), outcome: Number(passed) };
  return judged(passed, `the answer was ${JSON.stringify(said.slice(0, 200))}, and ${right} is right`, { parts });
}
