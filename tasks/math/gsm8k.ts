/**
 * The environment `gsm8k`: a word problem, one message, and a number after `####`. The verdict `number` compares
 * values, `skyrl` gives what SkyRL-Gym's environment of this name gives.
 */

import { z } from 'zod';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment } from '../environment.ts';
import { answerTask, instructionOption, judged, messagesOf, questionRecord } from '../question-records.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { goldNumber, isSameNumber, type Method, numberAnswer, skyrlAnswer } from './gsm8k-answer.ts';

export const INSTRUCTION = 'Think step by step. Write the final answer, a number, after "####".';

export const gradingOptions = {
  /** `number`: the values are equal. `skyrl`: the texts are, by SkyRL-Gym's rule. */
  verdict: z.enum(['number', 'skyrl']).default('number'),
  /** `strict`: the answer is after `####`. `flexible`: without `####` the last number counts. */
  method: z.enum(['strict', 'flexible']).default('strict'),
};

/** A record of GSM8K, or one of SkyRL's, with its number. */
export const gsm8kRecord = questionRecord.transform((record, context) => {
  const number = goldNumber(record.gold);
  if (number === undefined) context.addIssue({ code: 'custom', path: ['answer'], message: 'it must have a number' });
  return { ...record, number: number ?? { text: '', value: { top: 0n, bottom: 1n } } };
});

export type Gsm8kRecord = z.output<typeof gsm8kRecord>;

export interface Grading {
  readonly verdict: 'number' | 'skyrl';
  readonly method: Method;
}

/** Whether a message has an answer, and whether it is right. */
export function gradeAnswer(
  message: string,
  { text, value }: Gsm8kRecord['number'],
  { verdict, method }: Grading,
): { readonly format: boolean; readonly passed: boolean; readonly said: string } {
  if (verdict === 'skyrl') {
    const said = skyrlAnswer(message, method);
    return { format: said !== null, passed: said === text, said: said ?? 'no number' };
  }
  const said = numberAnswer(message, method);
  const written = said === undefined ? 'no number' : `${said.top}${said.bottom === 1n ? '' : `/${said.bottom}`}`;
  return { format: said !== undefined, passed: isSameNumber(said, value), said: written };
}

export function verdictOn(message: string, number: Gsm8kRecord['number'], grading: Grading): Verdict {
  const { format, passed, said } = gradeAnswer(message, number, grading);
  const parts = { format: Number(format), outcome: Number(passed) };
  return judged(passed, `the answer was ${said}, and ${number.text} is right`, { parts });
}

/** The record's own solution. SkyRL's rule reads no separators and no fractions. */
export const solutionOf = ({ gold, number }: Gsm8kRecord, { verdict }: Pick<Grading, 'verdict'>): string =>
  verdict === 'number' && gold.includes('####') ? gold : `#### ${number.text}`;

const options = z.strictObject({ ...recordOptions, ...gradingOptions, instruction: instructionOption(INSTRUCTION) });

export const gsm8k: Environment<z.output<typeof options>> = {
  name: 'gsm8k',
  options,
  open: (given, io) =>
    openRecords(given, io, gsm8kRecord, (record) =>
      answerTask(messagesOf(record, given.instruction), solutionOf(record, given), (message) =>
        verdictOn(message, record.number, given),
      ),
    ),
};
