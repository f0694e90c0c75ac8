/**
 * The environment `aime`: a competition problem whose answer is a number from 0 to 999. The verdict `value` compares
 * values, with rewards 1 and 0; `skyrl` and `skyrl_strict_box` compare texts as SkyRL-Gym does, with rewards 1 and -1.
 */

import { z } from 'zod';
import type { Verdict } from '../../protocol/stages.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment } from '../environment.ts';
import { answerTask, instructionOption, judged, messagesOf, questionRecord } from '../question-records.ts';
import { gradeMath } from './grade-math.ts';
import { minervaVerdict, strictBoxVerdict, type TextVerdict } from './minerva.ts';

const INSTRUCTION =
  'Solve the problem step by step. The last line must be "Answer: \\boxed{ANSWER}", where ANSWER is the answer.';

const VERDICTS = { skyrl: minervaVerdict, skyrl_strict_box: strictBoxVerdict } satisfies Record<
  string,
  (solution: string, groundTruth: string) => TextVerdict
>;

const options = z.strictObject({
  ...recordOptions,
  verdict: z.enum(['value', 'skyrl', 'skyrl_strict_box']).default('value'),
  instruction: instructionOption(INSTRUCTION),
});

function verdictOn(message: string, gold: string, verdict: z.output<typeof options>['verdict']): Verdict {
  if (verdict === 'value') return gradeMath(message, gold, 'equivalent');
  const { passed, said } = VERDICTS[verdict](message, gold);
  const reason = `the answer was ${JSON.stringify(said)}, and ${JSON.stringify(gold)} is right`;
  const format = Number(said !== null && said !== '[INVALID]');
  return judged(passed, reason, { reward: passed ? 1 : -1, parts: { format, outcome: Number(passed) } });
}

/** A form that each of the verdicts reads. */
const solutionOf = (gold: string, verdict: string): string =>
  verdict === 'skyrl' ? `Answer: ${gold}` : `Answer: \\boxed{${gold}}`;

export const aime: Environment<z.output<typeof options>> = {
  name: 'aime',
  options,
  open: (given, io) =>
    openRecords(given, io, questionRecord, (record) =>
      answerTask(messagesOf(record, given.instruction), solutionOf(record.gold, given.verdict), (message) =>
        verdictOn(message, record.gold, given.verdict),
      ),
    ),
};
