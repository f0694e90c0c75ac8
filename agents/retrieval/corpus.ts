/**
 * A corpus with its index, in memory. A process opens each corpus once for the same content and options; how large it
 * may be is bounded. What it finds depends on the files alone.
 */

import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { Bm25Builder, type Bm25Index, type Bm25Options } from './bm25.ts';
import { type CorpusFile, corpusFiles, digestOfFiles, type Passage, passagesOf } from './passages.ts';

export interface CorpusOptions extends Bm25Options {
  /** Absolute: a file of records, or a folder of such files or of texts. */
  readonly path: string;
  /** Limit on the size of all files together. */
  readonly maxMiB: number;
}

export interface FoundPassage extends Passage {
  readonly score: number;
}

/** The files of a corpus are not those that the run started with. */
export class CorpusChanged extends Error {
  override readonly name = 'DataChanged';
}

const BLOCK = 1024 * 1024;

/** Passages as bytes outside of the heap of JavaScript objects. */
class PassageStore {
  readonly #blocks: Buffer[] = [];
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #blockStart = 0;
  /** For each passage: number of its block, start and length in it. */
  readonly #places: Array<readonly [block: number, start: number, length: number]> = [];

  add({ id, title, text }: Passage): void {
    const bytes = Buffer.from(JSON.stringify([id, title, text]));
    this.#places.push([this.#blocks.length, this.#blockStart, bytes.length]);
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    this.#blockStart += bytes.length;
    if (this.#pendingBytes >= BLOCK) this.close();
  }

  /** Must be called before passages are read. */
  close(): void {
    this.#blocks.push(Buffer.concat(this.#pending));
    [this.#pending, this.#pendingBytes, this.#blockStart] = [[], 0, 0];
  }

  get(index: number): Passage | undefined {
    const [block = 0, start = 0, length] = this.#places[index] ?? [];
    if (length === undefined) return undefined;
    const text = this.#blocks[block]?.toString('utf8', start, start + length) ?? '[]';
    const [id = '', title = '', body = ''] = JSON.parse(text) as string[];
    return { id, title, text: body };
  }
}

export class Corpus {
  /** SHA-256 of its files. */
  readonly digest: string;
  readonly #index: Bm25Index;
  readonly #passages: PassageStore;
  readonly #byId: ReadonlyMap<string, number>;

  constructor(digest: string, index: Bm25Index, passages: PassageStore, byId: ReadonlyMap<string, number>) {
    [this.digest, this.#index, this.#passages, this.#byId] = [digest, index, passages, byId];
  }

  get size(): number {
    return this.#index.size;
  }

  /** The `topk` best passages, the best first. Fewer if fewer have a term of the query. */
  search(query: string, topk: number): FoundPassage[] {
    return this.#index.search(query, topk).flatMap(({ index, score }) => {
      const passage = this.#passages.get(index);
      return passage === undefined ? [] : [{ ...passage, score }];
    });
  }

  /** The passage with this id. */
  get(id: string): Passage | undefined {
    const index = this.#byId.get(id);
    return index === undefined ? undefined : this.#passages.get(index);
  }
}

/** Other work of the process, such as heartbeats, has its turn after so many passages. */
const AT_ONCE = 200;

async function build({ path, k1, b }: CorpusOptions, files: readonly CorpusFile[]): Promise<Corpus> {
  const hash = createHash('sha256');
  const builder = new Bm25Builder();
  const passages = new PassageStore();
  const byId = new Map<string, number>();
  let count = 0;
  for await (const passage of passagesOf(path, files, hash)) {
    // The first passage of an id counts.
    if (!byId.has(passage.id)) byId.set(passage.id, count);
    builder.add(`${passage.title}\n${passage.text}`);
    passages.add(passage);
    count += 1;
    if (count % AT_ONCE === 0) await nextTurn();
  }
  passages.close();
  if (count === 0) throw new UserInputError('corpus', path, 'give at least one passage');
  return new Corpus(hash.digest('hex'), builder.build({ k1, b }), passages, byId);
}

/** Errors: `UserInputError` if the files are larger than the limit. */
async function boundedFiles({ path, maxMiB }: CorpusOptions): Promise<CorpusFile[]> {
  const files = await corpusFiles(path);
  const mib = files.reduce((sum, { bytes }) => sum + bytes, 0) / 1024 / 1024;
  if (mib <= maxMiB) return files;
  throw new UserInputError(
    'corpus',
    path,
    `it has ${Math.ceil(mib)} MiB: give a smaller one, raise maxMiB (${maxMiB}), or use a retrieval server (searchUrl)`,
  );
}

/** Corpora that a process keeps. */
const MOST_OPEN = 4;
const opened = new Map<string, Promise<Corpus>>();
const digests = new Map<string, Promise<string>>();

/** Keeps the newest values. A failure is not kept. */
function once<T>(known: Map<string, Promise<T>>, most: number, key: string, make: () => Promise<T>): Promise<T> {
  const found = known.get(key);
  if (found !== undefined) return found;
  const [oldest] = known.keys();
  if (known.size >= most && oldest !== undefined) known.delete(oldest);
  const made = make();
  known.set(key, made);
  made.catch(() => known.delete(key));
  return made;
}

/** Files that have neither changed their size nor their time are not read again. */
const keyOf = (options: CorpusOptions, files: readonly CorpusFile[]): string => JSON.stringify([options, files]);

/** SHA-256 of the corpus's files, without an index. Errors: `UserInputError`; those of the read. */
export async function corpusDigest(options: CorpusOptions): Promise<string> {
  const files = await boundedFiles(options);
  return once(digests, 64, keyOf(options, files), () => digestOfFiles(options.path, files));
}

/**
 * The corpus. `digest`: what its files must be. Errors: `UserInputError` for a bad record, with file, number and field;
 * `CorpusChanged`.
 */
export async function openCorpus(options: CorpusOptions, digest?: string): Promise<Corpus> {
  const files = await boundedFiles(options);
  const corpus = await once(opened, MOST_OPEN, keyOf(options, files), () => build(options, files));
  if (digest !== undefined && digest !== corpus.digest)
    throw new CorpusChanged(
      `the corpus ${options.path} has changed since the run or eval started: restore its files, ` +
        'or start it under another name',
    );
  return corpus;
}
