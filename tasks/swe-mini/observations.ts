/** What the tools print for the calls that demonstrations make: the same bytes as in a sandbox, without one. */

import { numbered } from '../../agents/tools/view.ts';
import type { Problem } from './problem.ts';
import { workingTree } from './repository.ts';

/** `str_replace_editor view` of a whole file that ends with a line end. */
export function viewed(source: string): string {
  return numbered(source.slice(0, -1).split('\n'), 1);
}

/** `str_replace_editor str_replace`. */
export function edited(path: string): string {
  return `Edited ${path}.`;
}

/** `str_replace_editor str_replace` of a text that the file does not hold. */
export function notFound(path: string): string {
  return `Error: old_str is not in ${path}; copy it exactly, with its indentation.`;
}

/** Any command of `str_replace_editor` on a file that is not there. */
export function missing(path: string): string {
  return `Error: ${path} does not exist.`;
}

/** `search` for an exact text. */
export function found(query: string, problem: Problem): string {
  return [...workingTree(problem)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([path, content]) =>
      content.split('\n').flatMap((line, i) => (line.includes(query) ? [`${path}:${i + 1}:${line}`] : [])),
    )
    .join('\n');
}
