/**
 * Records of a question and its answer, as GSM8K, MATH and SkyRL's own files have them, and the tasks that are made of
 * them: no tools, no sandbox, and the policy's message is its answer.
 */

import { z } from 'zod';
import type { Message } from '../protocol/message.ts';
import type { Verdict } from '../protocol/stages.ts';
import type { Task } from './environment.ts';

/** More than a grader reads: the rest of a longer text is cut off at its beginning. Characters. */
export const MOST_READ = 100_000;

const messages = z.array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })).min(1);
/** JavaScript writes other numbers in another way than the file, or rounds them. */
const isPlain = (value: number): boolean =>
  Number.isInteger(value) ? Number.isSafeInteger(value) : !/e/.test(`${value}`);
const gold = z.union([
  z.string(),
  z.number().refine(isPlain, 'it is too large or too small for a number; write it as a text'),
]);
const spec = z.looseObject({ ground_truth: gold });

/**
 * `question` (or `problem`, or SkyRL's `prompt`) and `answer` (or SkyRL's `reward_spec.ground_truth`, or
 * `reward_model.ground_truth`). Further fields are for the environment.
 */
export const questionRecord = z
  .looseObject({
    question: z.string().min(1).optional(),
    problem: z.string().min(1).optional(),
    prompt: z.union([z.string().min(1), messages]).optional(),
    answer: gold.optional(),
    reward_spec: spec.optional(),
    reward_model: spec.optional(),
    /** The group for which pass rates are reported. */
    subject: z.string().optional(),
    /** SkyRL's. */
    max_turns: z.unknown().optional(),
    extra_info: z.unknown().optional(),
  })
  .transform((record, context) => {
    const asked = record.question ?? record.problem ?? record.prompt;
    const answer = record.answer ?? record.reward_spec?.ground_truth ?? record.reward_model?.ground_truth;
    const missing = (field: string, remedy: string): void =>
      context.addIssue({ code: 'custom', path: [field], message: `it is missing; ${remedy}` });
    if (asked === undefined) missing('question', 'or map it: fields: { question: NAME }');
    if (answer === undefined) missing('answer', 'or map it: fields: { answer: NAME }');
    return { ...record, asked: asked ?? '', gold: String(answer ?? '') };
  });

export type QuestionRecord = z.output<typeof questionRecord>;

/** What the policy reads: the question with the instruction, or the record's own messages as they are. */
export function messagesOf({ asked }: Pick<QuestionRecord, 'asked'>, instruction: string): readonly Message[] {
  if (typeof asked !== 'string') return asked;
  return [{ role: 'user', content: instruction === '' ? asked : `${asked}\n\n${instruction}` }];
}

/** An option of environments: the text after the question. */
export const instructionOption = (text: string) => z.string().default(text);

/**
 * A task with one turn. `grade` is a function of the policy's message, of which it gets the last `MOST_READ`
 * characters.
 */
export function answerTask(
  messages: readonly Message[],
  oracle: string,
  grade: (answer: string) => Verdict | Promise<Verdict>,
): Task {
  return {
    messages,
    tools: [],
    gradedIn: 'none',
    grade: async (_ctx, { answer }) => await grade(answer.slice(-MOST_READ)),
    oracle: async () => await Promise.resolve([{ role: 'assistant', content: oracle }]),
  };
}

/** A verdict on a text that is right or wrong. */
export const judged = (
  passed: boolean,
  reason: string,
  more: { readonly reward?: number; readonly parts?: Readonly<Record<string, number>> } = {},
): Verdict => ({ code: 'graded', reward: Number(passed), passed, reason, ...more });
