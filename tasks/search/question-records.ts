/** Records of questions with golden answers, as HotpotQA, NQ, FlashRAG and SkyRL's own files have them. */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import { corpusDigest } from '../../agents/retrieval/corpus.ts';
import { checkRetrieval, corpusOptions } from '../../agents/retrieval/retriever.ts';
import type { Message } from '../../protocol/message.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Dataset, EnvironmentIo, Task } from '../environment.ts';
import { normalizedAnswer } from '../qa/answer-match.ts';
import { searchOptions, type SearchSettings } from './information.ts';

const messages = z.array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })).min(1);
const texts = z.union([z.string(), z.number(), z.array(z.union([z.string(), z.number()])).min(1)]);
const target = z.union([texts, z.looseObject({ target: texts })]);
const spec = z.looseObject({ ground_truth: target });

const targetOf = (given: z.output<typeof target> | undefined) =>
  typeof given === 'object' && !Array.isArray(given) ? given.target : given;

/**
 * `question` (or SkyRL's `prompt`) and `answer` (or `answers`, `golden_answers`, or SkyRL's
 * `reward_spec.ground_truth.target`), a text or several. `id` is the record's name.
 */
export const searchRecord = z
  .looseObject({
    id: z.union([z.string(), z.number()]).optional(),
    question: z.string().min(1).optional(),
    prompt: z.union([z.string().min(1), messages]).optional(),
    answer: texts.optional(),
    answers: texts.optional(),
    golden_answers: texts.optional(),
    reward_spec: spec.optional(),
    reward_model: spec.optional(),
  })
  .transform((record, context) => {
    const asked = record.question ?? record.prompt;
    const answer =
      record.answer ??
      record.answers ??
      record.golden_answers ??
      targetOf(record.reward_spec?.ground_truth) ??
      targetOf(record.reward_model?.ground_truth);
    const golden = answer === undefined ? [] : [answer].flat().map(String);
    const issue = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message });
    if (asked === undefined) issue('question', 'it is missing; or map it: fields: { question: NAME }');
    if (golden.length === 0) issue('answer', 'it is missing; or map it: fields: { answer: NAME }');
    return { id: String(record.id ?? ''), asked: asked ?? '', golden };
  });

/** A question with its golden answers. */
export interface AskedRecord {
  readonly id: string;
  readonly asked: string | readonly Message[];
  readonly golden: readonly string[];
}

/** The record, if its answers can be told from no answer at all. */
export const matchedRecord = searchRecord.refine(({ golden }) => golden.some((one) => normalizedAnswer(one) !== ''), {
  path: ['answer'],
  error: 'give an answer with a letter or a digit: articles and punctuation alone match nothing',
});

/** What the policy reads: the question after the instruction, or the record's own messages as they are. */
export function promptOf({ asked }: Pick<AskedRecord, 'asked'>, instruction: string): readonly Message[] {
  if (typeof asked !== 'string') return asked;
  return [{ role: 'user', content: instruction === '' ? asked : `${instruction}\n\nQuestion: ${asked}` }];
}

/** The question as a text. */
export const questionText = ({ asked }: Pick<AskedRecord, 'asked'>): string =>
  typeof asked === 'string' ? asked : (asked.findLast(({ role }) => role === 'user')?.content ?? '');

/**
 * The settings with the corpus's absolute path and digest. Errors: `UserInputError` if the corpus cannot be read, or if
 * neither it nor a server is given.
 */
export async function openRetrieval<Options extends SearchSettings>(
  options: Options,
  io: EnvironmentIo,
): Promise<Options> {
  const { corpus } = options;
  const placed = corpus === undefined ? options : { ...options, corpus: io.path('corpus', corpus) };
  checkRetrieval(placed, 'task.options');
  return corpus === undefined ? placed : { ...placed, digest: await corpusDigest(corpusOptions(placed)) };
}

/** The dataset, whose digest also covers what its tasks depend on beside the records. */
export function withDigest(dataset: Dataset, ...parts: readonly unknown[]): Dataset {
  const digest = createHash('sha256').update(JSON.stringify([dataset.digest, ...parts]));
  return { ...dataset, digest: digest.digest('hex') };
}

/** Settings of tasks that search by SkyRL-Gym's protocol. */
export interface SearchTaskSettings extends SearchSettings {
  readonly maxTurns: number;
  readonly instruction: string;
}

/** Their options. `instruction`: what is before a question. A record with messages of its own has none. */
export const searchTaskOptions = (instruction: string) =>
  z.strictObject({
    ...recordOptions,
    ...searchOptions,
    /** Messages of the policy, as SkyRL-Gym's `max_turns`. */
    maxTurns: z.int().min(1).max(1000).default(2),
    instruction: z.string().default(instruction),
  });

/** Their dataset: its digest covers the corpus or the server, and every setting that a task depends on. */
export async function openSearchTasks(
  given: z.output<ReturnType<typeof searchTaskOptions>>,
  io: EnvironmentIo,
  record: z.ZodType<AskedRecord>,
  taskOf: (record: AskedRecord, settings: SearchTaskSettings) => Task,
): Promise<Dataset> {
  const settings: SearchTaskSettings = await openRetrieval<SearchTaskSettings>(given, io);
  const dataset = await openRecords(
    given,
    io,
    record,
    (one) => taskOf(one, settings),
    ({ id }) => id,
  );
  const { maxTurns, topk, whenDown, instruction, k1, b } = settings;
  return withDigest(dataset, settings.digest ?? settings.searchUrl, maxTurns, topk, whenDown, instruction, k1, b);
}
