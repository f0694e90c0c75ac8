/** The answers of `code_search` as text, from an index. Sorted, bounded, and the same for equal workspaces. */

import { closest } from '../../protocol/closest.ts';
import type { CodeIndex, IndexedFile, Passage } from './code-index.ts';
import type { CodeSymbol } from './parse-file.ts';

const MOST_LINES = 50;
const LONGEST_LINE = 200;
const MOST_PASSAGES = 8;
/** Lines of a passage that are shown. */
const SHOWN = 4;

interface Found {
  readonly file: IndexedFile;
  readonly symbol: CodeSymbol;
}

const shown = (line: string | undefined): string => (line ?? '').trim().slice(0, LONGEST_LINE);
const fullName = ({ container, name }: CodeSymbol): string => (container === '' ? name : `${container}.${name}`);

/** Only the lines that are shown are made. */
function bounded(lines: ReadonlyArray<() => string>, what: string): string {
  const more = lines.length - MOST_LINES;
  return [
    ...lines.slice(0, MOST_LINES).map((line) => line()),
    ...(more > 0 ? [`[${more} more ${what}; give a path to narrow it]`] : []),
  ].join('\n');
}

/** True if the file is `path` or below it. No path: every file is. */
const isUnder = (file: string, path: string | undefined): boolean =>
  path === undefined || file === path || file.startsWith(path.endsWith('/') ? path : `${path}/`);

/** `./a/b/` is `a/b`, and the workspace itself is no path. */
export function plainPath(path: string | undefined): string | undefined {
  const plain = path?.replace(/^(?:\.\/)+/u, '').replace(/\/+$/u, '');
  return plain === undefined || plain === '' || plain === '.' ? undefined : plain;
}

function allSymbols(index: CodeIndex, path: string | undefined): Found[] {
  return index.files
    .filter((file) => isUnder(file.path, path))
    .flatMap((file) => (file.parsed?.symbols ?? []).map((symbol) => ({ file, symbol })));
}

/** `Class.method` names a method of that class; `method` one of any. */
const isNamed = (symbol: CodeSymbol, name: string): boolean =>
  symbol.name === name || fullName(symbol) === name || fullName(symbol).endsWith(`.${name}`);

function guess(name: string, found: readonly Found[]): string {
  const last = name.slice(name.lastIndexOf('.') + 1);
  const near = new Set(found.map(({ symbol }) => symbol.name).filter((one) => Math.abs(one.length - last.length) <= 4));
  const meant = closest(last, near);
  return meant === undefined || meant === last ? '' : ` Did you mean ${meant}?`;
}

const definitionLine = ({ file, symbol }: Found): string =>
  `${file.path}:${symbol.line}-${symbol.endLine}: ${symbol.kind} ${fullName(symbol)}: ` +
  `${shown(file.lines[symbol.line - 1])}`;

export function definitions(index: CodeIndex, name: string, path: string | undefined): string {
  const all = allSymbols(index, path);
  const exact = all.filter(({ symbol }) => isNamed(symbol, name));
  const lower = name.toLowerCase();
  const found = exact.length > 0 ? exact : all.filter(({ symbol }) => symbol.name.toLowerCase() === lower);
  if (found.length > 0)
    return bounded(
      found.map((one) => () => definitionLine(one)),
      'definitions',
    );
  return `There is no definition of ${name}${path === undefined ? '' : ` in ${path}`}.${guess(name, all)}`;
}

export function references(index: CodeIndex, name: string, path: string | undefined): string {
  const last = name.slice(name.lastIndexOf('.') + 1);
  const files = index.files.filter((file) => isUnder(file.path, path));
  const lines = files.flatMap((file) => {
    const defined = new Set(
      (file.parsed?.symbols ?? []).filter((symbol) => symbol.name === last).map(({ line }) => line),
    );
    return (file.parsed?.names.get(last) ?? []).map((line) => () => {
      const around = innermost(file, line);
      const place = around === undefined || defined.has(line) ? '' : ` [in ${fullName(around)}]`;
      return `${file.path}:${line}: ${shown(file.lines[line - 1])}${defined.has(line) ? ' [definition]' : place}`;
    });
  });
  if (lines.length > 0) return bounded(lines, 'lines');
  return `Nothing uses ${last}${path === undefined ? '' : ` in ${path}`}.${guess(last, allSymbols(index, path))}`;
}

/** The smallest definition around a line. */
function innermost(file: IndexedFile, line: number): CodeSymbol | undefined {
  const around = (file.parsed?.symbols ?? []).filter((symbol) => symbol.line <= line && line <= symbol.endLine);
  return around.toSorted((a, b) => a.endLine - a.line - (b.endLine - b.line))[0];
}

/** What a file defines, by its lines; for a folder, how many definitions its files have. */
export function outline(index: CodeIndex, path: string | undefined): string {
  const file = path === undefined ? undefined : index.file(path);
  if (file) {
    const lines = (file.parsed?.symbols ?? []).map((symbol) => () => {
      const depth = symbol.container === '' ? 0 : symbol.container.split('.').length;
      return `${'  '.repeat(Math.min(depth, 8))}${symbol.line}-${symbol.endLine}: ${symbol.kind} ${symbol.name}`;
    });
    return lines.length > 0 ? bounded(lines, 'definitions') : `${file.path} defines nothing that is known here.`;
  }
  const below = index.files.filter(({ path: one }) => isUnder(one, path));
  if (below.length > 0)
    return bounded(
      below.map(
        (one) => () => `${one.path}: ${one.parsed?.symbols.length ?? 0} definitions, ${one.lines.length} lines`,
      ),
      'files',
    );
  const meant = closest(path ?? '', new Set(index.files.map((one) => one.path)));
  return `There is no source file ${path ?? ''}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`;
}

function passageLines(index: CodeIndex, { path, line, endLine, symbol }: Passage): string {
  const lines = index.file(path)?.lines.slice(line - 1, endLine) ?? [];
  const title = symbol === undefined ? '' : ` ${symbol.kind} ${fullName(symbol)}`;
  const first = lines.filter((one) => one.trim() !== '').slice(0, SHOWN);
  return [
    `${path}:${line}-${endLine}:${title}`,
    ...first.map((one) => `    ${one.trimEnd().slice(0, LONGEST_LINE)}`),
  ].join('\n');
}

export function search(index: CodeIndex, query: string, path: string | undefined): string {
  const found = index.search(query, path === undefined ? MOST_PASSAGES : 200).filter((one) => isUnder(one.path, path));
  if (found.length === 0) return `Nothing shares a word with ${JSON.stringify(query.slice(0, 200))}.`;
  return found
    .slice(0, MOST_PASSAGES)
    .map((passage) => passageLines(index, passage))
    .join('\n');
}
