/** What the documentation holds that can be wrong: fenced code, inline code and links, each with its file and line. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');

export interface Document {
  /** Relative to the repository. */
  readonly file: string;
  readonly text: string;
}

export interface Piece {
  readonly file: string;
  /** Counted from 1: where the text begins. */
  readonly line: number;
  readonly text: string;
}

const FENCE = /^ *```(\w*)[^\n]*\n([^]*?)^ *```/gm;
const INLINE = /`([^`\n]+)`/g;
const LINK = /\[[^\]\n]*\]\(([^)\s]+)[^)\n]*\)/g;

export function documents(): Document[] {
  const files = [
    'README.md',
    ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`),
  ];
  return files.map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
}

const lineAt = (text: string, index: number) => text.slice(0, index).split('\n').length;

/** The fenced blocks of a language. */
export function fences({ file, text }: Document, language: string): Piece[] {
  return [...text.matchAll(FENCE)]
    .filter(([, name]) => name === language)
    .map((match) => ({ file, line: lineAt(text, match.index) + 1, text: match[2] ?? '' }));
}

function all({ file, text }: Document, pattern: RegExp): Piece[] {
  return [...text.matchAll(pattern)].map((match) => ({ file, line: lineAt(text, match.index), text: match[1] ?? '' }));
}

/** Blanks in place of what `pattern` matches: lines keep their numbers. */
const without = (text: string, pattern: RegExp) => text.replaceAll(pattern, (match) => match.replaceAll(/[^\n]/g, ' '));

export function inlineCode({ file, text }: Document): Piece[] {
  return all({ file, text: without(text, FENCE) }, INLINE);
}

/** Targets of links and images. */
export function links({ file, text }: Document): Piece[] {
  return all({ file, text: without(without(text, FENCE), INLINE) }, LINK);
}

/** The anchors that GitHub gives to a document's headings. */
export function anchors(text: string): Set<string> {
  const headings = [...without(text, FENCE).matchAll(/^#+ +(.+?)\s*$/gm)].map(([, heading = '']) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
