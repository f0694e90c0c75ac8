/** Where a user's own module threw: what is reported of an exception says the file and the line, as a terminal would. */

import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '#setup/paths.mjs';

/** Folders of this package that hold its own code; a clone's examples and tests are somebody's own. */
const OWN_FOLDERS = ['activities', 'agents', 'bin', 'cli', 'dist', 'sandboxes', 'scripts', 'store', 'tasks', 'trainer', 'workers', 'workflows'];

/** `file:///a/b.ts:1:2`, `/a/b.ts:1:2` or, before the message of a module that cannot be parsed, `file:///a/b.ts:1`. */
const PLACE = /(?:^|[\s(])((?:file:\/\/)?\/[^\s()]+?):(\d+)(?::\d+)?\)?$/;

function placeOf(line: string): { readonly file: string; readonly line: string } | undefined {
  const [, where, at] = PLACE.exec(line.trim()) ?? [];
  if (where === undefined || at === undefined) return undefined;
  const path = where.replace(/\?[^/]*$/, '');
  return { file: path.startsWith('file:') ? fileURLToPath(path) : path, line: at };
}

const isOfPackage = (file: string): boolean => OWN_FOLDERS.some((folder) => file.startsWith(`${packageRoot}${sep}${folder}${sep}`));

/**
 * `FILE:LINE` of the first frame with a file, passing over libraries, where that is neither this package's nor one of its
 * dependencies' alone; `undefined` for what this package threw itself.
 */
export function ownFrame(error: unknown): string | undefined {
  const lines = error instanceof Error ? (error.stack ?? '').split('\n') : [];
  for (const line of lines) {
    const place = placeOf(line);
    if (place === undefined || place.file.includes(`${sep}node_modules${sep}`) && !isOfPackage(place.file)) continue;
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
