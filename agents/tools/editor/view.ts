/** `view`: shows a file with line numbers, or a directory two levels deep, cut to the limit of an observation. */

import { posix } from 'node:path';

import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { type Arguments, ToolArgumentError } from '../schema/arguments.ts';
import { truncateMiddle } from '../observation.ts';
import { DEFAULT_MAX_CHARACTERS, type ToolContext } from '../tool.ts';

const MAX_FILE_BYTES = 4 << 20;
/** A directory with more folders is listed without their contents: each listing takes time, and few would read them. */
const MAX_FOLDERS = 200;
const NAME = 'str_replace_editor';
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function failed(path: string, reason: string): ToolArgumentError {
  return new ToolArgumentError(NAME, 'path', `${path} ${reason}.`);
}

/** The bytes of a text file. Errors: `ToolArgumentError`. */
export async function readText(sandbox: Sandbox, path: string): Promise<Buffer> {
  const result = await sandbox.read(path, MAX_FILE_BYTES);
  if (result.kind === 'missing') throw failed(path, 'does not exist');
  if (result.kind === 'directory') throw failed(path, 'is a directory');
  if (result.kind === 'denied') throw failed(path, `cannot be opened: ${result.reason}`);
  if (result.kind === 'too-large')
    throw failed(path, `is too large (${result.bytes} bytes); use bash to look at a part of it`);
  if (result.content.includes(0)) throw failed(path, 'is a binary file');
  return Buffer.from(result.content.buffer, result.content.byteOffset, result.content.byteLength);
}

function checkedRange(args: Arguments, lines: number): readonly [number, number] {
  const range = args.integers('view_range');
  if (range === undefined) return [1, lines];
  const [first = 0, last = 0] = range;
  const end = last === -1 ? lines : Math.min(last, lines);
  if (range.length !== 2 || first < 1 || first > lines || end < first)
    throw args.wrong('view_range', `must be [first, last] within lines 1 to ${lines}.`);
  return [first, end];
}

export function numbered(lines: readonly string[], first: number): string {
  return lines.map((line, index) => `${first + index}\t${line}`).join('\n');
}

const visible = (entries: readonly string[]): string[] => entries.filter((entry) => !entry.startsWith('.'));

async function viewDirectory(sandbox: Sandbox, path: string, entries: readonly string[]): Promise<string> {
  const lines: string[] = [];
  const seen = visible(entries);
  const looksInside = seen.filter((entry) => entry.endsWith('/')).length <= MAX_FOLDERS;
  for (const entry of seen) {
    lines.push(entry);
    if (!looksInside || !entry.endsWith('/')) continue;
    const inner = await sandbox.read(posix.join(path, entry), 0);
    if (inner.kind === 'directory') lines.push(...visible(inner.entries).map((name) => `${entry}${name}`));
  }
  return lines.length === 0 ? `${path} is empty.` : lines.join('\n');
}

export async function view(args: Arguments, sandbox: Sandbox, context: ToolContext): Promise<string> {
  const path = args.text('path');
  const max = context.maxCharacters ?? DEFAULT_MAX_CHARACTERS;
  const listing = await sandbox.read(path, MAX_FILE_BYTES);
  if (listing.kind === 'directory') return truncateMiddle(await viewDirectory(sandbox, path, listing.entries), max);
  const text = decoder.decode(
    listing.kind === 'file' && !listing.content.includes(0) ? listing.content : await readText(sandbox, path),
  );
  const lines = (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n').map((line) => line.replace(/\r$/u, ''));
  const [first, last] = checkedRange(args, lines.length);
  return truncateMiddle(numbered(lines.slice(first - 1, last), first), max);
}
