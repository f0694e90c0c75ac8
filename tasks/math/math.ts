/**
 * The environment `math`: a problem whose answer is an expression in `\boxed{…}`, as in MATH. The verdict `equivalent`
 * compares meanings, `exact` compares texts.
 */

import { z } from 'zod';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment } from '../environment.ts';
import { answerTask, instructionOption, messagesOf, questionRecord } from '../question-records.ts';
import { lastBoxed } from './boxed.ts';
import { gradeMath } from './grade-math.ts';

const INSTRUCTION = 'Think step by step. Put the final answer, and nothing else, in \\boxed{}.';

const options = z.strictObject({
  ...recordOptions,
  verdict: z.enum(['exact', 'equivalent']).default('equivalent'),
  instruction: instructionOption(INSTRUCTION),
});

/** A record may have its answer in its solution alone. */
const record = z.preprocess((given) => {
  if (typeof given !== 'object' || given === null || !('solution' in given) || 'answer' in given) return given;
  const boxed = typeof given.solution === 'string' ? lastBoxed(given.solution) : undefined;
  return boxed === undefined ? given : { ...given, answer: boxed };
}, questionRecord);

export const math: Environment<z.output<typeof options>> = {
  name: 'math',
  options,
  open: (given, io) =>
    openRecords(given, io, record, (read) => ({
      ...answerTask(messagesOf(read, given.instruction), `\\boxed{${read.gold}}`, (message) =>
        gradeMath(message, read.gold, given.verdict),
      ),
      ...(read.subject !== undefined && { family: read.subject }),
    })),
};
