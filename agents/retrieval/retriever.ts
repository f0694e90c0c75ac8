/**
 * Searches passages: in a corpus of this machine, or at a retrieval server. Both answer in the form of SkyRL's
 * retrieval API, `{ result: [[{ document: { id, title, contents }, score }]] }`.
 */

import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { type CorpusOptions, openCorpus } from './corpus.ts';
import { askRetrievalServer, type Within } from './retrieval-server.ts';

/** Options of everything that searches passages. */
export const retrievalOptions = {
  /** A file of passages (`.jsonl`, `.parquet`), or a folder of such files or of texts. */
  corpus: z.string().min(1).optional(),
  /** A server with SkyRL's retrieval API, in place of a corpus. */
  searchUrl: z
    .url({ protocol: /^https?$/, error: 'give an address such as http://127.0.0.1:8000/retrieve' })
    .optional(),
  /** Passages of one search. */
  topk: z.int().min(1).max(100).default(3),
  /** Seconds of one try at the server. */
  timeoutSeconds: z.number().min(1).max(600).default(30),
  k1: z.number().min(0).max(10).default(1.2),
  b: z.number().min(0).max(1).default(0.75),
  /** Limit on the corpus, which is held in memory. */
  maxMiB: z.number().positive().default(1024),
};

const schema = z.object(retrievalOptions);
export type RetrievalOptions = z.output<typeof schema>;

export const corpusOptions = ({ corpus = '', k1, b, maxMiB }: RetrievalOptions): CorpusOptions => ({
  path: corpus,
  k1,
  b,
  maxMiB,
});

/** Errors: `UserInputError` if neither or both are given, or if the corpus's path is not absolute. */
export function checkRetrieval({ corpus, searchUrl }: RetrievalOptions, field: string): void {
  if ((corpus === undefined) === (searchUrl === undefined))
    throw new UserInputError(
      `${field}.corpus`,
      corpus,
      'give corpus: a file or a folder of passages, or searchUrl: a retrieval server, and not both',
    );
  if (corpus !== undefined && !isAbsolute(corpus))
    throw new UserInputError(`${field}.corpus`, corpus, 'give an absolute path');
}

/**
 * `digest`: what the corpus's files must be. Errors: `ServiceUnavailable`; `CorpusChanged`; `UserInputError` for a
 * corpus that cannot be read.
 */
export async function retrieve(
  options: RetrievalOptions & { readonly digest?: string | undefined },
  query: string,
  within: Within,
  asks: 'query' | 'queries' = 'query',
): Promise<unknown> {
  const { searchUrl, topk, timeoutSeconds, digest } = options;
  if (searchUrl !== undefined)
    return askRetrievalServer({ url: searchUrl, timeoutSeconds, asks }, { query, topk }, within);
  const corpus = await openCorpus(corpusOptions(options), digest);
  const found = corpus
    .search(query, topk)
    .map(({ id, title, text, score }) => ({
      document: { id, title, contents: title === '' ? text : `"${title}"\n${text}` },
      score,
    }));
  return { result: [found] };
}
