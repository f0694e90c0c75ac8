/**
 * Reads the passages of a corpus one by one: records of JSON Lines or Parquet files, or text files of a folder. Each is
 * checked; an error names the file, the record and the field.
 */

import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, extname, join, relative } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { UserInputError } from '../../protocol/user-input-error.ts';

export interface Passage {
  readonly id: string;
  /** Empty: it has none. */
  readonly title: string;
  readonly text: string;
}

const RECORDS = ['.jsonl', '.ndjson', '.parquet'];
const TEXTS = ['.txt', '.md'];
/** Bytes of one text file, and characters of one record. */
const MOST_PASSAGE = 4 * 1024 * 1024;
/** Each field under the names that published corpora use. */
const NAMES = { id: ['id', '_id', 'docid'], title: ['title'], text: ['text', 'contents', 'content'] } as const;

const bad = (file: string, number: number, field: string, reason: string): UserInputError =>
  new UserInputError('corpus', `${file}, record ${number}${field === '' ? '' : `, field ${field}`}`, reason);

/** The first of the names that the record has, as a text. */
function fieldOf(record: object, names: readonly string[]): string | undefined {
  const values = new Map<string, unknown>(Object.entries(record));
  const value = names.map((name) => values.get(name)).find((one) => one !== undefined && one !== null);
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined;
}

/** `number`: of the record in its file, from 1. Its id, if it has none, is the number of the passage. */
function passageOf(value: unknown, file: string, number: number, index: number): Passage {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw bad(file, number, '', 'give an object with title, text and id');
  const text = fieldOf(value, NAMES.text);
  if (text === undefined) throw bad(file, number, 'text', `give a text, as ${NAMES.text.join(', or ')}`);
  if (text.length > MOST_PASSAGE) throw bad(file, number, 'text', `give at most ${MOST_PASSAGE} characters`);
  return { id: fieldOf(value, NAMES.id) ?? String(index), title: fieldOf(value, NAMES.title) ?? '', text };
}

/** The lines of a file. The bytes go to `hash` too. */
async function* linesOf(file: string, hash: Hash): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest: string[] = [];
  let length = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    const [first = '', ...more] = decoder.write(chunk).split('\n');
    rest.push(first);
    length += first.length;
    if (length > 2 * MOST_PASSAGE)
      throw new UserInputError('corpus', file, `give a file of lines, each of at most ${2 * MOST_PASSAGE} characters`);
    if (more.length === 0) continue;
    yield rest.join('');
    yield* more.slice(0, -1);
    rest = [more.at(-1) ?? ''];
    length = rest[0]?.length ?? 0;
  }
  yield rest.join('') + decoder.end();
}

async function* recordLines(file: string, hash: Hash): AsyncGenerator<unknown> {
  let number = 0;
  for await (const line of linesOf(file, hash)) {
    number += 1;
    if (line.trim() === '') continue;
    try {
      yield JSON.parse(line);
    } catch (error) {
      throw bad(file, number, '', `give a line of JSON (${(error as Error).message})`);
    }
  }
}

/** One row group is in memory at a time. */
async function* recordRows(file: string, hash: Hash): AsyncGenerator<unknown> {
  // Loaded here: most processes read none.
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  const { compressors } = await import('hyparquet-compressors');
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
  const bytes = await asyncBufferFromFile(file);
  const metadata = await parquetMetadataAsync(bytes);
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows);
    yield* await parquetReadObjects({ file: bytes, metadata, compressors, rowStart, rowEnd });
    rowStart = rowEnd;
  }
}

async function textFile(file: string, hash: Hash): Promise<string> {
  const { size } = await stat(file);
  if (size > MOST_PASSAGE)
    throw new UserInputError('corpus', file, `split it: a text has at most ${MOST_PASSAGE} bytes`);
  const bytes = await readFile(file);
  hash.update(bytes);
  return bytes.toString('utf8');
}

export interface CorpusFile {
  readonly path: string;
  readonly bytes: number;
  readonly modifiedMs: number;
}

/**
 * The files of a corpus: the file itself, or those of a folder, also below it, in the order of their names. Errors:
 * `UserInputError` if there are none, or if the path cannot be read.
 */
export async function corpusFiles(path: string): Promise<CorpusFile[]> {
  const known = [...RECORDS, ...TEXTS];
  const isKnown = (file: string) => known.includes(extname(file).toLowerCase());
  const found = await stat(path).catch((error: unknown) => {
    throw new UserInputError('corpus', path, `give a file or a folder that exists (${(error as Error).message})`);
  });
  const paths = found.isDirectory()
    ? (await readdir(path, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile() && isKnown(entry.name))
        .map((entry) => join(entry.parentPath, entry.name))
        .toSorted()
    : [path].filter(isKnown);
  if (paths.length === 0) throw new UserInputError('corpus', path, `give files of the kinds ${known.join(', ')}`);
  return Promise.all(
    paths.map(async (one) => {
      const { size, mtimeMs } = await stat(one);
      return { path: one, bytes: size, modifiedMs: mtimeMs };
    }),
  );
}

/**
 * All passages, in the order of the files. `hash` receives the names and the bytes of all files. Errors:
 * `UserInputError` for a bad record; those of the read.
 */
export async function* passagesOf(root: string, files: readonly CorpusFile[], hash: Hash): AsyncGenerator<Passage> {
  let index = 0;
  for (const { path } of files) {
    const name = relative(root, path) || basename(path);
    const kind = extname(path).toLowerCase();
    const bytes = createHash('sha256');
    if (TEXTS.includes(kind)) {
      yield { id: name, title: basename(path, extname(path)), text: await textFile(path, bytes) };
      index += 1;
    } else {
      let number = 0;
      for await (const record of kind === '.parquet' ? recordRows(path, bytes) : recordLines(path, bytes)) {
        number += 1;
        yield passageOf(record, path, number, index);
        index += 1;
      }
    }
    hash.update(`${name} ${bytes.digest('hex')}\n`);
  }
}

/** The digest that `passagesOf` makes, without the passages. */
export async function digestOfFiles(root: string, files: readonly CorpusFile[]): Promise<string> {
  const hash = createHash('sha256');
  for (const { path } of files) {
    const bytes = createHash('sha256');
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) bytes.update(chunk);
    hash.update(`${relative(root, path) || basename(path)} ${bytes.digest('hex')}\n`);
  }
  return hash.digest('hex');
}
