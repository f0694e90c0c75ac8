/**
 * `memory`: questions about a context that is too long to be read at once. The policy reads it section by section,
 * keeps what matters in a memory of its own (`next_with_summary`), and answers with `finish`. Only the memory goes from
 * one section to the next.
 */

import { z } from 'zod';
import { MOST_SUMMARY_CHARACTERS } from '../../protocol/frames.ts';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task, TaskContext, Work } from '../environment.ts';
import { exactMatch, subMatch } from '../qa/answer-match.ts';
import { JUDGE, judgeAnswer } from './judge-answer.ts';
import { sectionsOf } from './memory-chunks.ts';
import { type AskedRecord, matchedRecord, questionText, withDigest } from './question-records.ts';

const options = z.strictObject({
  ...recordOptions,
  /** About the tokens of a section; four characters are one. */
  sectionTokens: z.int().min(50).max(1_000_000).default(4000),
  /**
   * `em`: the answer equals a golden one. `contains`: it has all golden ones, as RULER counts. `judge`: the judge
   * `judge` of the configuration says whether it is right.
   */
  grader: z.enum(['em', 'contains', 'judge']).default('em'),
});

type Options = z.output<typeof options>;

const SYSTEM =
  'You answer a question about a long text that you read in sections. You see one section at a time, ' +
  'and you forget everything but your memory when you go on. After each section call next_with_summary with your ' +
  'whole memory, rewritten: what you knew already and what this section adds for the question. ' +
  'When all sections are read, or when you are sure, call finish with the answer alone.';

interface Reading extends AskedRecord {
  readonly context: string;
}

/** What the policy reads at section `number`, from 1. After the last one there is none. */
function sectionMessages(question: string, sections: readonly string[], number: number, known: string): Message[] {
  const section = sections[number - 1];
  const part =
    section === undefined
      ? '<section>\nThere are no more sections.\n</section>'
      : `<section>\nChunk ${number}/${sections.length}\n${section}\n</section>`;
  const left = sections.length - number;
  const progress =
    section === undefined
      ? 'All sections are read. Call finish with the answer.'
      : left > 0
        ? `${number} of ${sections.length} sections. Call next_with_summary for the next one.`
        : 'This is the last section. Call finish with the answer.';
  const content =
    `<problem>\n${question}\n</problem>\n\n<memory>\n${known === '' ? 'It is empty.' : known}\n</memory>\n\n` +
    `${part}\n\n**Progress:** ${progress}`;
  return [
    { role: 'system', content: SYSTEM },
    { role: 'user', content },
  ];
}

const graded = (passed: boolean, answer: string, read: number, of: number): Verdict => ({
  code: 'graded',
  reward: Number(passed),
  passed,
  reason: `the answer was ${JSON.stringify(answer.slice(0, 200))}`,
  metrics: { sectionsRead: read / of },
});

export function memoryTask(
  record: Reading,
  { sectionTokens, grader }: Pick<Options, 'sectionTokens' | 'grader'>,
): Task {
  const question = questionText(record);
  const sections = sectionsOf(record.context, sectionTokens);
  return {
    messages: sectionMessages(question, sections, 1, ''),
    tools: ['next_with_summary', 'finish'],
    gradedIn: 'none',

    openSegment: (summary, segment) => sectionMessages(question, sections, segment, summary),

    async grade(ctx: TaskContext, { answer, finish, transcript }: Work) {
      const last = transcript.reduce((most, { segment = 1 }) => Math.max(most, segment), 1);
      const read = Math.min(last, sections.length);
      if (finish !== 'finish-tool' || answer.trim() === '') return graded(false, answer, read, sections.length);
      const { golden } = record;
      if (grader === 'em') return graded(exactMatch(answer, golden), answer, read, sections.length);
      if (grader === 'contains')
        return graded(
          golden.every((one) => subMatch(answer, [one])),
          answer,
          read,
          sections.length,
        );
      const { isRight } = await judgeAnswer({ question, answer, golden }, ctx);
      return graded(isRight, answer, read, sections.length);
    },

    async oracle() {
      const call = (name: string, args: Record<string, unknown>): Message => ({
        role: 'assistant',
        content: '',
        toolCalls: [{ name, arguments: args }],
      });
      const answer = record.golden.join(', ');
      const known = `The answer is ${answer}.`.slice(0, MOST_SUMMARY_CHARACTERS);
      const summaries = sections.slice(1).map(() => call('next_with_summary', { summary: known }));
      return await Promise.resolve([
        ...summaries,
        call('finish', { answer: grader === 'em' ? record.golden[0] : answer }),
      ]);
    },
  };
}

const reading = z.looseObject({ context: z.string().min(1, 'give the long text') }).transform((record, context) => {
  const parsed = matchedRecord.safeParse(record);
  if (parsed.success) return { ...parsed.data, context: record.context };
  for (const { path, message } of parsed.error.issues) context.addIssue({ code: 'custom', path: [...path], message });
  return z.NEVER;
});

export const memoryEnvironment: Environment<Options> = {
  name: 'memory',
  options,
  judgesOf: ({ grader }) => (grader === 'judge' ? [JUDGE] : []),
  async open(given, io) {
    const dataset = await openRecords(
      given,
      io,
      reading,
      (record) => memoryTask(record, given),
      ({ id }) => id,
    );
    return withDigest(dataset, given.sectionTokens, given.grader);
  },
};
