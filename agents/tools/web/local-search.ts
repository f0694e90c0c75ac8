/**
 * `local_search` and `get_document`: passages of a corpus of this machine, or of a retrieval server. A server that is
 * down is a failure, never an observation.
 */

import { z } from 'zod';
import { openCorpus } from '../../retrieval/corpus.ts';
import { checkRetrieval, corpusOptions, retrievalOptions, retrieve } from '../../retrieval/retriever.ts';
import { isOfQuery } from '../../retrieval/retrieval-server.ts';
import { ServiceUnavailable } from '../../web/service-unavailable.ts';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool } from '../tool.ts';

const options = z
  .strictObject({
    ...retrievalOptions,
    /** Digest of the corpus's files: with others the call fails as `data-changed`. Absent: it is not checked. */
    digest: z.string().optional(),
    /** `text`: `Doc 1(Title: …) …`, as SkyRL-Agent. `json`: docid, score and snippet, as BrowseComp-Plus. */
    form: z.enum(['text', 'json']).default('text'),
    /** Characters of a passage that are shown. */
    snippetCharacters: z.int().min(1).max(100_000).default(2000),
  })
  .superRefine((given, context) => {
    try {
      checkRetrieval(given, 'options');
    } catch (error) {
      context.addIssue({ code: 'custom', path: ['corpus'], message: (error as Error).message });
    }
  });

export type LocalSearchOptions = z.input<typeof options>;

/** A passage of a retrieval server, as far as it has the API's form. */
const passage = z.object({
  document: z.looseObject({
    id: z.union([z.string(), z.number()]).optional(),
    title: z.string().optional(),
    contents: z.string(),
  }),
  score: z.number().optional(),
});
const answered = z.object({ result: z.array(z.array(passage)).nullish() });

type Found = z.output<typeof passage>;

const NONE = 'No search results found.';

/** The title, and the text without a title in quotes at its beginning. */
function parted({ document: { title, contents } }: Found): { readonly title: string; readonly text: string } {
  const [first = '', ...rest] = contents.trim().split('\n');
  const quoted = /^"(.*)"$/.exec(first)?.[1];
  if (quoted !== undefined) return { title: title ?? quoted, text: rest.join('\n') };
  return { title: title ?? first, text: title === undefined ? rest.join('\n') || first : contents.trim() };
}

const shownAsText = (found: readonly Found[], most: number): string =>
  found
    .map((one, i) => {
      const { title, text } = parted(one);
      return `Doc ${i + 1}(Title: ${title}) ${text.slice(0, most)}`;
    })
    .join('\n');

const shownAsJson = (query: string, found: readonly Found[], most: number): string =>
  JSON.stringify({
    query,
    num_results: found.length,
    results: found.map(({ document: { id = '', contents }, score = null }, i) => ({
      rank: i + 1,
      docid: String(id),
      score: score === null ? null : Math.round(score * 1e4) / 1e4,
      snippet: contents.trim().slice(0, most),
    })),
  });

/** With shorter snippets if it is too long: half a text would be no JSON. */
function fittingJson(query: string, found: readonly Found[], most: number, maxCharacters: number): string {
  const text = shownAsJson(query.slice(0, 1000), found, most);
  return text.length <= maxCharacters || most <= 1
    ? text
    : fittingJson(query, found, Math.floor(most / 2), maxCharacters);
}

export const localSearch = makeTool({
  name: 'local_search',
  description: 'Searches a collection of texts, and returns the passages that fit the query best.',
  parameters: { query: { type: 'string', minLength: 1, maxLength: 10_000, description: 'What to find.' } },
  required: ['query'],
  options,
  runs: 'worker',
  effect: 'none',
  async run(args, { options: given, signal, deadline, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const query = args.text('query');
    let answer: unknown;
    try {
      answer = await retrieve(given, query, { signal, deadline }, 'queries');
    } catch (error) {
      if (!(error instanceof ServiceUnavailable) || !isOfQuery(error)) throw error;
      throw args.wrong('query', `the server refuses it (status ${error.status}).`);
    }
    const read = answered.safeParse(answer);
    if (!read.success)
      throw new ServiceUnavailable('answer', `${given.searchUrl} answered in another form than SkyRL's retrieval API`);
    const found = read.data.result?.[0]?.slice(0, given.topk) ?? [];
    const most = given.snippetCharacters;
    if (given.form === 'json') return fittingJson(query, found, most, maxCharacters);
    return found.length === 0 ? NONE : truncateMiddle(shownAsText(found, most), maxCharacters);
  },
});

/** Of a corpus alone: retrieval servers have no such request. */
const documentOptions = z.strictObject({
  corpus: z.string().startsWith('/', 'give an absolute path'),
  digest: z.string().optional(),
  k1: retrievalOptions.k1,
  b: retrievalOptions.b,
  maxMiB: retrievalOptions.maxMiB,
});

export const getDocument = makeTool({
  name: 'get_document',
  description: 'Returns a document of the collection by its docid.',
  parameters: {
    docid: { type: 'string', description: 'The docid that a search has shown.' },
    from: { type: 'integer', minimum: 0, description: 'Character to begin with; default 0.' },
  },
  required: ['docid'],
  options: documentOptions,
  runs: 'worker',
  effect: 'none',
  async run(args, { options: { digest, ...given }, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
    const corpus = await openCorpus(corpusOptions({ ...given, topk: 1, timeoutSeconds: 1 }), digest);
    const document = corpus.get(args.text('docid'));
    if (document === undefined) throw args.wrong('docid', 'there is no such document: copy it from a search.');
    const whole = document.title === '' ? document.text : `${document.title}\n${document.text}`;
    const from = args.integer('from') ?? 0;
    const part = whole.slice(from, from + maxCharacters);
    const left = whole.length - from - part.length;
    return left > 0 ? `${part}\n[${left} characters follow: use from ${from + part.length}]` : part;
  },
});
