/**
 * `browsecomp_plus`: hard questions over a fixed corpus (Chen et al., BrowseComp-Plus, 2025), with `local_search` and
 * `get_document`. A judge compares the final answer; recall of the evidence and calibration are metrics. Encrypted
 * records are decrypted in memory alone.
 */

import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task, TaskContext, Work } from '../environment.ts';
import { retrievalOptions } from '../../agents/retrieval/retriever.ts';
import { decrypted } from './canary.ts';
import { JUDGE, judgeAnswer } from './judge-answer.ts';
import { openRetrieval, withDigest } from './question-records.ts';

const INSTRUCTION = `Answer the question below with the tools: search the corpus with local_search, and read whole documents with get_document. The answer needs several searches that build on each other. When you are done, call finish with an answer of this form:
Explanation: {how the documents lead to the answer, with the docids that you rely on in square brackets, such as [20]}
Exact Answer: {the short final answer}
Confidence: {from 0% to 100%}`;

const options = z.strictObject({
  ...recordOptions,
  ...retrievalOptions,
  topk: z.int().min(1).max(100).default(5),
  /** Characters of a found document that are shown. */
  snippetCharacters: z.int().min(1).max(100_000).default(2000),
  /** The text with which `query` and `answer` of the records are encrypted, as the dataset's page gives it. */
  canary: z.string().min(1).optional(),
  instruction: z.string().default(INSTRUCTION),
});

type Options = z.output<typeof options>;
type Settings = Options & { readonly digest?: string | undefined };

const docid = z.union([z.string(), z.number()]).transform(String);
const docs = z.array(z.union([docid, z.looseObject({ docid }).transform(({ docid: id }) => id)])).default([]);

/** `query_id`, `query`, `answer`, and `evidence_docs` and `gold_docs`: docids, or objects with a `docid`. */
const record = z.looseObject({
  query_id: docid.default(''),
  query: z.string().min(1),
  answer: z.string().min(1),
  evidence_docs: docs,
  gold_docs: docs,
  /** In the record itself, as BrowseComp has it. */
  canary: z.string().min(1).optional(),
});

type Row = z.output<typeof record>;

const MOST_TOOL_ANSWER = 200_000;
const results = z.object({ results: z.array(z.looseObject({ docid })) });

/** The docids that searches have shown. Only answers of `local_search` count, not what the policy wrote. */
export function shownDocids({ transcript }: Pick<Work, 'transcript'>): Set<string> {
  const shown = new Set<string>();
  for (const message of transcript) {
    if (message.role !== 'tool' || message.name !== 'local_search' || message.content.length > MOST_TOOL_ANSWER)
      continue;
    try {
      for (const one of results.parse(JSON.parse(message.content)).results) shown.add(one.docid);
    } catch {
      // A refused call has no results.
    }
  }
  return shown;
}

/** From 0 to 1. `undefined` if the answer has none. */
export function confidenceIn(answer: string): number | undefined {
  const [, digits] = [...answer.matchAll(/confidence[*_\s]{0,4}:[*_\s]{0,6}(\d{1,3}(?:\.\d{1,6})?)/gi)].at(-1) ?? [];
  return digits === undefined ? undefined : Math.min(100, Number(digits)) / 100;
}

const share = (wanted: readonly string[], had: ReadonlySet<string>): number =>
  wanted.filter((one) => had.has(one)).length / wanted.length;

function metricsOf({ evidence_docs: evidence, gold_docs: gold }: Row, work: Work, isRight: boolean) {
  const shown = shownDocids(work);
  const confidence = confidenceIn(work.answer);
  return {
    documents: shown.size,
    ...(evidence.length > 0 && { evidenceRecall: share(evidence, shown) }),
    ...(gold.length > 0 && { goldRecall: share(gold, shown) }),
    // The Brier score (1950): the mean over tasks says how well confidence fits.
    ...(confidence !== undefined && { confidence, brier: (confidence - Number(isRight)) ** 2 }),
  };
}

const graded = (isRight: boolean, reason: string, row: Row, work: Work): Verdict => ({
  code: 'graded',
  reward: Number(isRight),
  passed: isRight,
  reason,
  metrics: metricsOf(row, work, isRight),
});

async function gradeOf(row: Row, ctx: TaskContext, work: Work): Promise<Verdict> {
  const { answer, finish } = work;
  const isComplete = finish === 'finish-tool' || finish === 'answer';
  if (!isComplete || answer.trim() === '') return graded(false, 'there is no final answer', row, work);
  const { isRight, isRead } = await judgeAnswer({ question: row.query, answer, golden: [row.answer] }, ctx);
  return graded(isRight, isRead ? `the judge says ${isRight ? 'yes' : 'no'}` : 'the judge gave no verdict', row, work);
}

const call = (name: string, args: Record<string, unknown>): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name, arguments: args }],
});

export function browseTask(row: Row, settings: Settings): Task {
  const { corpus, searchUrl, digest, topk, snippetCharacters, k1, b, maxMiB, timeoutSeconds, instruction } = settings;
  const place = corpus === undefined ? { searchUrl } : { corpus, ...(digest !== undefined && { digest }) };
  const search = { ...place, k1, b, maxMiB, topk, timeoutSeconds, snippetCharacters, form: 'json' };
  return {
    messages: [{ role: 'user', content: `${instruction}\n\nQuestion: ${row.query}` }],
    tools: [
      { name: 'local_search', options: search },
      ...(corpus === undefined ? [] : [{ name: 'get_document', options: { ...place, k1, b, maxMiB } }]),
      'finish',
    ],
    gradedIn: 'none',
    grade: (ctx, work) => gradeOf(row, ctx, work),
    oracle: async () =>
      await Promise.resolve([
        call('local_search', { query: row.query.slice(0, 10_000) }),
        call('finish', { answer: `Explanation: It is known.\nExact Answer: ${row.answer}\nConfidence: 100%` }),
      ]),
  };
}

export const browsecompPlus: Environment<Options> = {
  name: 'browsecomp_plus',
  options,
  judges: [JUDGE],
  async open(given, io) {
    const settings: Settings = await openRetrieval<Settings & { whenDown: 'hold' }>({ ...given, whenDown: 'hold' }, io);
    const read = z.preprocess((raw) => decrypted(raw, ['query', 'answer'], given.canary), record);
    const dataset = await openRecords(
      given,
      io,
      read as z.ZodType<Row>,
      (row) => browseTask(row, settings),
      ({ query_id }) => query_id,
    );
    const { topk, snippetCharacters, instruction, k1, b } = settings;
    return withDigest(dataset, settings.digest ?? settings.searchUrl, topk, snippetCharacters, instruction, k1, b);
  },
};
