/** Finds the file and line of a user's module that threw an exception, so that its report can name them. */

import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '#setup/paths.mjs';
import { sourceOf } from './source-places.ts';

/** Folders with this package's own code. A clone's examples and tests count as a user's code. */
const OWN_FOLDERS = [
  'activities',
  'agents',
  'benchmarks',
  'bin',
  'chaos',
  'cli',
  'client',
  'config',
  'connection',
  'dist',
  'endpoints',
  'modules',
  'protocol',
  'recipes',
  'reports',
  'sandboxes',
  'scripts',
  'servers',
  'stack',
  'store',
  'tasks',
  'trainer',
  'workers',
  'workflows',
];

/**
 * `at f (file:///a/b.ts:1:2)`, `at /a/b.ts:1:2`. A path may contain spaces and parentheses. Frames of evaluated text do
 * not match.
 */
const FRAME = /^\s+at (?!.*\(eval at )(?:async )?(?:(?!file:|\/).*? \()?((?:file:\/\/)?\/.+):(\d+):(\d+)\)?$/;
/** `file:///a/b.ts:1`: the first line of the stack if a module cannot be parsed. */
const HEAD = /^((?:file:\/\/)?\/.+):(\d+)$/;

interface Place {
  readonly file: string;
  readonly line: string | number;
}

/** Returns `undefined` if it is no file: a message may contain an invalid URL. */
function fileOf(where: string): string | undefined {
  const path = where.replace(/\?[^/]*$/, '');
  try {
    return path.startsWith('file:') ? fileURLToPath(path) : path;
  } catch {
    return undefined;
  }
}

/** Places in the stack, from the top. The message is skipped, since it may contain any text. */
function placesOf({ message, stack = '' }: Error): Place[] {
  const [first = ''] = stack.split('\n');
  const at = stack.indexOf(message);
  const frames = stack
    .slice(at < 0 ? 0 : at + message.length)
    .split('\n')
    .map((line) => FRAME.exec(line));
  // If the error has no name, the stack starts with the message.
  const head = at === 0 ? null : HEAD.exec(first);
  return [head, ...frames].flatMap((match) => {
    const file = match?.[1] === undefined ? undefined : fileOf(match[1]);
    if (file === undefined) return [];
    const [, , line = '', column = '1'] = match ?? [];
    return [sourceOf(file, Number(line), Number(column)) ?? { file, line }];
  });
}

const isOfPackage = (file: string): boolean =>
  OWN_FOLDERS.some((folder) => file.startsWith(`${packageRoot}${sep}${folder}${sep}`));

/**
 * `FILE:LINE` of the first frame with a file, without libraries. `undefined` if that frame is this package's code, or
 * there is none.
 */
export function ownFrame(error: unknown): string | undefined {
  for (const place of error instanceof Error ? placesOf(error) : []) {
    if (place.file.includes(`${sep}node_modules${sep}`) && !isOfPackage(place.file)) continue;
    return isOfPackage(place.file) ? undefined : `${place.file}:${place.line}`;
  }
  return undefined;
}

/** Messages are cut when they are stored. A longer first line (such as a whole document) would push the place out. */
const LONGEST_FIRST_LINE = 200;

/** The message, with the place in the user's module at the end of its first line: lists show only that line. */
export function messageWithPlace(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const place = ownFrame(error);
  if (place === undefined || message.includes(place)) return message;
  const [first = '', ...rest] = message.split('\n');
  const short = first.length > LONGEST_FIRST_LINE ? `${first.slice(0, LONGEST_FIRST_LINE)}…` : first;
  return [`${short} (${place})`, ...rest].join('\n');
}
