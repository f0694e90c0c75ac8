/**
 * The environments `qa` and `qa_judged`: a question with short answers in words. `qa` compares words, and `qa_judged`
 * asks a judge about what is no exact match. What is in `<answer>…</answer>` or `\boxed{…}` counts, else the message.
 */

import { z } from 'zod';
import type { Verdict } from '../../protocol/stages.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task, TaskContext } from '../environment.ts';
import { instructionOption, judged, MOST_READ } from '../question-records.ts';
import { fairAnswer } from '../fair-question.ts';
import { exactMatch, f1, isWrapped, normalizedAnswer, subMatch, unwrapped } from './answer-match.ts';
import { judgement, judgeQuestion, ONE_LINE } from './judge.ts';

const INSTRUCTION = 'Answer in a few words, between <answer> and </answer>.';
/** The judge's name in a configuration. */
const JUDGE = 'judge';

const text = z.string().min(1);
const texts = z.union([text, z.array(text).min(1)]);
const passage = z.looseObject({ title: z.string().default(''), text: z.string() });

/** `answer`, or `golden_answers` as FlashRAG's files have them, or SkyRL's `reward_spec.ground_truth.target`. */
const record = z
  .looseObject({
    question: text,
    answer: texts.optional(),
    golden_answers: texts.optional(),
    reward_spec: z.looseObject({ ground_truth: z.union([texts, z.looseObject({ target: texts })]) }).optional(),
    paragraphs: z.array(passage).optional(),
    /** The group for which pass rates are reported. */
    type: z.string().optional(),
  })
  .transform((read, context) => {
    const spec = read.reward_spec?.ground_truth;
    const target = typeof spec === 'object' && 'target' in spec ? spec.target : spec;
    const golds = [read.answer ?? read.golden_answers ?? target ?? []].flat();
    const refuse = (message: string): void => context.addIssue({ code: 'custom', path: ['answer'], message });
    if (golds.length === 0) refuse('it is missing; or map it: fields: { answer: NAME }');
    else if (golds.every((gold) => normalizedAnswer(gold) === '')) refuse('it has no word but articles');
    return { ...read, golds };
  });
type Read = z.output<typeof record>;

const common = {
  ...recordOptions,
  /** Put the record's `paragraphs` (`[{ title, text }]`) before the question. */
  passages: z.boolean().default(false),
  instruction: instructionOption(INSTRUCTION),
};
const options = z.strictObject({
  ...common,
  /** Which measure is the reward. `f1` gives parts of 1. */
  verdict: z.enum(['em', 'subem', 'f1']).default('em'),
});
const judgedOptions = z.strictObject(common);

interface Measures {
  readonly em: number;
  readonly subem: number;
  readonly f1: number;
  readonly format: number;
}

function measured(message: string, golds: readonly string[]): { readonly said: string; readonly parts: Measures } {
  const said = unwrapped(message);
  const em = Number(exactMatch(said, golds));
  const parts = { em, subem: Number(subMatch(said, golds)), f1: f1(said, golds), format: Number(isWrapped(message)) };
  return { said, parts };
}

const reasonOf = (said: string, golds: readonly string[]): string =>
  `the answer was ${JSON.stringify(said.slice(0, 200))}, and ${JSON.stringify(golds[0])} is right`;

function promptOf({ question, paragraphs = [] }: Read, given: z.output<typeof judgedOptions>): string {
  const shown = given.passages ? paragraphs.map(({ title, text: body }, i) => `[${i + 1}] ${title}\n${body}`) : [];
  return [...shown, `Question: ${question}`, given.instruction].filter((part) => part !== '').join('\n\n');
}

function taskOf(
  read: Read,
  given: z.output<typeof judgedOptions>,
  grade: (ctx: TaskContext, message: string) => Promise<Verdict>,
): Task {
  return {
    messages: [{ role: 'user', content: promptOf(read, given) }],
    tools: [],
    gradedIn: 'none',
    ...(read.type !== undefined && read.type !== '' && { family: read.type }),
    grade: (ctx, { answer }) => grade(ctx, answer.slice(-MOST_READ)),
    oracle: async () =>
      await Promise.resolve([{ role: 'assistant', content: `<answer>${read.golds[0] ?? ''}</answer>` }]),
  };
}

export const qa: Environment<z.output<typeof options>> = {
  name: 'qa',
  options,
  open: (given, io) =>
    openRecords(given, io, record, (read) =>
      taskOf(read, given, async (_ctx, message) => {
        const { said, parts } = measured(message, read.golds);
        const reward = parts[given.verdict];
        return await Promise.resolve(judged(reward === 1, reasonOf(said, read.golds), { reward, parts: { ...parts } }));
      }),
    ),
};

async function askedJudge(ctx: TaskContext, read: Read, message: string): Promise<Verdict> {
  const { said, parts } = measured(message, read.golds);
  const reason = reasonOf(said, read.golds);
  // A judge is asked only about what is in doubt.
  if (normalizedAnswer(said) === '' || parts.em === 1)
    return judged(parts.em === 1, reason, { parts: { ...parts, judged: parts.em } });
  const question = judgeQuestion(read.question, read.golds, said);
  const passed = await fairAnswer({
    // The second question must be another one: an equal one gets the same recorded answer in a retry.
    questions: [question, `${question}\n\n${ONE_LINE}`],
    control: judgeQuestion(read.question, read.golds, read.golds[0] ?? ''),
    ask: (content) => ctx.ask(content, { judge: JUDGE }),
    read: judgement,
  });
  if (passed === undefined)
    return judged(false, `${reason}; the judge said nothing about it`, { parts: { ...parts, judged: 0 } });
  return judged(passed, `${reason}; the judge said ${passed ? 'yes' : 'no'}`, {
    parts: { ...parts, judged: Number(passed) },
  });
}

export const qaJudged: Environment<z.output<typeof judgedOptions>> = {
  name: 'qa_judged',
  options: judgedOptions,
  judges: [JUDGE],
  open: (given, io) =>
    openRecords(given, io, record, (read) => taskOf(read, given, (ctx, message) => askedJudge(ctx, read, message))),
};
