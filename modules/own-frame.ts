/** Where a user's own module threw: what is reported of an exception says the file and the line, as a terminal would. */

import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '#setup/paths.mjs';

/** Folders of this package that hold its own code; a clone's examples and tests are somebody's own. */
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

/** `at f (file:///a/b.ts:1:2)`, `at /a/b.ts:1:2`; a path may have spaces and parentheses in it. Places in a text that was evaluated are none. */
const FRAME = /^\s+at (?!.*\(eval at )(?:async )?(?:(?!file:|\/).*? \()?((?:file:\/\/)?\/.+):(\d+):\d+\)?$/;
/** `file:///a/b.ts:1`, the first line for a module that cannot be parsed. */
const HEAD = /^((?:file:\/\/)?\/.+):(\d+)$/;

interface Place {
  readonly file: string;
  readonly line: string;
}

/** `undefined` for what is no file: a message may have an impossible URL in it. */
function fileOf(where: string): string | undefined {
  const path = where.replace(/\?[^/]*$/, '');
  try {
    return path.startsWith('file:') ? fileURLToPath(path) : path;
  } catch {
    return undefined;
  }
}

/** From the top of the stack down. The message is passed over: it says what it likes. */
function placesOf({ message, stack = '' }: Error): Place[] {
  const [first = ''] = stack.split('\n');
  const at = stack.indexOf(message);
  const frames = stack
    .slice(at < 0 ? 0 : at + message.length)
    .split('\n')
    .map((line) => FRAME.exec(line));
  // Without a name, the message comes first.
  const head = at === 0 ? null : HEAD.exec(first);
  return [head, ...frames].flatMap((match) => {
    const file = match?.[1] === undefined ? undefined : fileOf(match[1]);
    return file === undefined ? [] : [{ file, line: match?.[2] ?? '' }];
  });
}

const isOfPackage = (file: string): boolean =>
  OWN_FOLDERS.some((folder) => file.startsWith(`${packageRoot}${sep}${folder}${sep}`));

/**
 * `FILE:LINE` of the first frame with a file, passing over libraries, where that is neither this package's nor one of its
 * dependencies' alone; `undefined` for what this package threw itself.
 */
export function ownFrame(error: unknown): string | undefined {
  for (const place of error instanceof Error ? placesOf(error) : []) {
    if (place.file.includes(`${sep}node_modules${sep}`) && !isOfPackage(place.file)) continue;
    return isOfPackage(place.file) ? undefined : `${place.file}:${place.line}`;
  }
  return undefined;
}

/** Beyond this, a first line (a whole document, say) would push the place out of what is kept of a message. */
const LONGEST_FIRST_LINE = 200;

/** The message, with the place where a user's own module threw it at the end of the first line: lists show that line alone. */
export function messageWithPlace(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const place = ownFrame(error);
  if (place === undefined || message.includes(place)) return message;
  const [first = '', ...rest] = message.split('\n');
  const short = first.length > LONGEST_FIRST_LINE ? `${first.slice(0, LONGEST_FIRST_LINE)}…` : first;
  return [`${short} (${place})`, ...rest].join('\n');
}
