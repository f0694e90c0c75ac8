/**
 * An index of a workspace's code, kept outside of the sandbox: what is defined and used where. It is brought up to date
 * before each answer, by the files that have changed, and equal workspaces give equal answers.
 */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { type Bm25Index, Bm25Builder } from '../retrieval/bm25.ts';
import { parseElsewhere } from './parse-elsewhere.ts';
import type { CodeSymbol, ParsedFile } from './parse-file.ts';
import { listSources, readSource, type SourceFile } from './source-files.ts';

export interface IndexedFile {
  readonly path: string;
  readonly version: string;
  readonly lines: readonly string[];
  /** `undefined` if it could not be parsed: its lines are searched all the same. */
  readonly parsed: ParsedFile | undefined;
}

/** A part of a file that is found as one: a definition, or lines between definitions. */
export interface Passage {
  readonly path: string;
  readonly line: number;
  readonly endLine: number;
  readonly symbol?: CodeSymbol;
}

/** Files, and bytes of them, that are read and parsed together: one workspace does not keep others waiting for long. */
const [TOGETHER, TOGETHER_BYTES] = [64, 2 << 20];
/** Lines of a passage that is no definition. */
const WINDOW = 40;
/** A function of more lines is found by its parts. */
const MOST_LINES = 200;
const BM25 = { k1: 1.2, b: 0.75 };

/** `parseHttpRequest_v2` is also `parse Http Request v2`. */
const words = (text: string): string =>
  `${text} ${text.replaceAll(/([\p{Ll}\d])(?=\p{Lu})/gu, '$1 ').replaceAll('_', ' ')}`;

function windows(path: string, from: number, to: number): Passage[] {
  const count = Math.max(0, Math.ceil((to - from) / WINDOW));
  return Array.from({ length: count }, (_, i) => {
    const line = from + i * WINDOW;
    return { path, line, endLine: Math.min(line + WINDOW, to) - 1 };
  });
}

/** Its functions, and windows over all lines between them. */
function passagesOf({ path, lines, parsed }: IndexedFile): Passage[] {
  const whole = (parsed?.symbols ?? []).filter(
    ({ kind, line, endLine }) =>
      (kind === 'function' || kind === 'method') && endLine - line < MOST_LINES && endLine > line,
  );
  const passages: Passage[] = [];
  let next = 1;
  for (const symbol of whole.toSorted((a, b) => a.line - b.line || b.endLine - a.endLine)) {
    if (symbol.line < next) continue;
    passages.push(...windows(path, next, symbol.line), { path, line: symbol.line, endLine: symbol.endLine, symbol });
    next = symbol.endLine + 1;
  }
  return [...passages, ...windows(path, next, lines.length + 1)];
}

/** Parts of a list that are read and parsed together. */
function batches(files: readonly SourceFile[]): SourceFile[][] {
  const parts: SourceFile[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const file of files) {
    const part = parts.at(-1);
    bytes += file.bytes;
    if (part !== undefined && part.length < TOGETHER && bytes <= TOGETHER_BYTES) part.push(file);
    else {
      parts.push([file]);
      bytes = file.bytes;
    }
  }
  return parts;
}

export class CodeIndex {
  #files = new Map<string, IndexedFile>();
  #left = 0;
  #passages: { readonly all: readonly Passage[]; readonly bm25: Bm25Index } | undefined;

  /** By path, in byte order. */
  get files(): readonly IndexedFile[] {
    return [...this.#files.values()];
  }

  /** Source files that are not in the index: there are too many, or the time was over. */
  get left(): number {
    return this.#left;
  }

  file(path: string): IndexedFile | undefined {
    return this.#files.get(path);
  }

  /**
   * Reads what has changed. `callId` is this call's own. After `timeoutMs` the rest is left to the next call. Errors:
   * `Unlisted`; those of the sandbox.
   */
  async update(sandbox: Sandbox, callId: string, timeoutMs: number, now = Date.now): Promise<void> {
    const end = now() + timeoutMs;
    const { files, left } = await listSources(sandbox, callId, timeoutMs);
    const next = new Map<string, IndexedFile>();
    const stale = files.filter(({ path, version }) => this.#files.get(path)?.version !== version);
    const read = new Map<string, IndexedFile>();
    let late = 0;
    for (const some of batches(stale)) {
      if (now() > end) {
        late += some.length;
        continue;
      }
      const texts: Array<{ readonly path: string; readonly version: string; readonly text: string }> = [];
      for (const { path, version } of some) {
        const text = await readSource(sandbox, path);
        if (text !== undefined) texts.push({ path, version, text });
      }
      const parsed = await parseElsewhere(texts.map(({ path, text }) => ({ path, text })));
      for (const [i, { path, version, text }] of texts.entries())
        read.set(path, { path, version, lines: text.split('\n'), parsed: parsed[i] });
    }
    for (const { path, version } of files) {
      const known = this.#files.get(path);
      const file = known?.version === version ? known : read.get(path);
      if (file) next.set(path, file);
    }
    if (stale.length > 0 || next.size !== this.#files.size) this.#passages = undefined;
    this.#files = next;
    this.#left = left + late;
  }

  /** The passages that share words with the query, the best first. */
  search(query: string, most: number): readonly Passage[] {
    const { all, bm25 } = (this.#passages ??= this.#indexed());
    return bm25.search(words(query), most).flatMap(({ index }) => all[index] ?? []);
  }

  #indexed(): { readonly all: readonly Passage[]; readonly bm25: Bm25Index } {
    const all = this.files.flatMap(passagesOf);
    const builder = new Bm25Builder();
    for (const { path, line, endLine } of all)
      builder.add(words(`${path}\n${(this.#files.get(path)?.lines ?? []).slice(line - 1, endLine).join('\n')}`));
    return { all, bm25: builder.build(BM25) };
  }
}

/** Indices of this process, by sandbox; the one that was used longest ago is dropped first. */
const MOST_INDICES = 8;
const indices = new Map<string, CodeIndex>();

/** The index of a sandbox's workspace. A worker that lacks it makes it anew. */
export function indexOf(sandbox: string): CodeIndex {
  const index = indices.get(sandbox) ?? new CodeIndex();
  indices.delete(sandbox);
  indices.set(sandbox, index);
  const [oldest] = indices.keys();
  if (indices.size > MOST_INDICES && oldest !== undefined) indices.delete(oldest);
  return index;
}
