/**
 * The files below `/memories`, as the calls of the tool `memory` make them. Pure: equal calls in the same order give
 * equal files and answers. Their number and size are bounded.
 */

import { posix } from 'node:path';

export const ROOT = '/memories';
export const LIMITS = { files: 100, fileCharacters: 65_536, characters: 262_144, pathCharacters: 200 } as const;

/** A mistake of the policy. */
export class MemoryError extends Error {
  override readonly name = 'MemoryError';
}

export type MemoryCommand =
  | { readonly command: 'view'; readonly path: string; readonly range?: readonly number[] | undefined }
  | { readonly command: 'create'; readonly path: string; readonly text: string }
  | { readonly command: 'str_replace'; readonly path: string; readonly old: string; readonly text: string }
  | { readonly command: 'insert'; readonly path: string; readonly line: number; readonly text: string }
  | { readonly command: 'delete'; readonly path: string }
  | { readonly command: 'rename'; readonly path: string; readonly to: string };

/** The path without `.`, `..` and double slashes. Errors: `MemoryError` if it is not below the root. */
function placed(path: string): string {
  const clean = posix.normalize(path.startsWith('/') ? path : posix.join(ROOT, path)).replace(/\/$/, '');
  if (clean !== ROOT && !clean.startsWith(`${ROOT}/`)) throw new MemoryError(`path ${path}: give one below ${ROOT}.`);
  if (clean.length > LIMITS.pathCharacters || /\p{Cc}/u.test(clean))
    throw new MemoryError(`path: give at most ${LIMITS.pathCharacters} characters, without control characters.`);
  return clean;
}

/** Number of places at which `part` begins, counted up to 2. */
function timesIn(text: string, part: string): number {
  const first = text.indexOf(part);
  return first < 0 ? 0 : text.indexOf(part, first + 1) < 0 ? 1 : 2;
}

export class MemoryFiles {
  readonly #files = new Map<string, string>();

  /** Carries the command out, and returns the observation. Errors: `MemoryError`; then nothing has changed. */
  apply(command: MemoryCommand): string {
    const path = placed(command.path);
    switch (command.command) {
      case 'view':
        return this.#view(path, command.range);
      case 'create':
        this.#put(path, command.text);
        return `Wrote ${path}.`;
      case 'str_replace':
        return this.#replace(path, command.old, command.text);
      case 'insert':
        return this.#insert(path, command.line, command.text);
      case 'delete':
        return this.#delete(path);
      case 'rename':
        return this.#rename(path, placed(command.to));
    }
  }

  #below(folder: string): string[] {
    return [...this.#files.keys()].filter((path) => path.startsWith(`${folder}/`)).toSorted();
  }

  #text(path: string): string {
    const text = this.#files.get(path);
    if (text !== undefined) return text;
    const near = this.#below(ROOT).slice(0, 20).join(', ');
    throw new MemoryError(`${path} does not exist. ${near === '' ? 'There are no files yet.' : `Files: ${near}`}`);
  }

  #view(path: string, range: readonly number[] | undefined): string {
    const below = this.#below(path);
    if (!this.#files.has(path) && (path === ROOT || below.length > 0)) {
      const list = below.map((one) => `${one} (${this.#files.get(one)?.length ?? 0} characters)`);
      return list.length === 0 ? `${path} is empty.` : `Files in ${path}:\n${list.join('\n')}`;
    }
    const lines = this.#text(path).split('\n');
    const [from = 1, to = lines.length] = range ?? [];
    const last = to === -1 ? lines.length : to;
    if (from < 1 || from > lines.length || last < from)
      throw new MemoryError(`view_range [${from}, ${to}]: ${path} has ${lines.length} lines, from 1.`);
    return lines
      .slice(from - 1, last)
      .map((line, i) => `${String(from + i).padStart(4)} ${line}`)
      .join('\n');
  }

  #put(path: string, text: string): void {
    if (path === ROOT || this.#below(path).length > 0) throw new MemoryError(`${path} is a folder: give a file.`);
    const parent = [...this.#files.keys()].find((one) => path.startsWith(`${one}/`));
    if (parent !== undefined) throw new MemoryError(`${parent} is a file: nothing can be below it.`);
    if (text.length > LIMITS.fileCharacters)
      throw new MemoryError(`${path} would have ${text.length} characters; at most ${LIMITS.fileCharacters}.`);
    const others = [...this.#files].filter(([one]) => one !== path);
    const sum = others.reduce((all, [, one]) => all + one.length, text.length);
    if (others.length >= LIMITS.files || sum > LIMITS.characters)
      throw new MemoryError(
        `there is no room: at most ${LIMITS.files} files and ${LIMITS.characters} characters. ` +
          'Delete what is not needed.',
      );
    this.#files.set(path, text);
  }

  #replace(path: string, old: string, text: string): string {
    const before = this.#text(path);
    const times = old === '' ? 0 : timesIn(before, old);
    if (times === 0) throw new MemoryError(`old_str is not in ${path}: copy it exactly.`);
    if (times > 1) throw new MemoryError(`old_str is in ${path} more than once: give more of the text around it.`);
    this.#put(
      path,
      before.replace(old, () => text),
    );
    return `Changed ${path}.`;
  }

  #insert(path: string, line: number, text: string): string {
    const lines = this.#text(path).split('\n');
    if (line < 0 || line > lines.length)
      throw new MemoryError(`insert_line ${line}: give the line after which to insert, from 0 to ${lines.length}.`);
    this.#put(path, [...lines.slice(0, line), text, ...lines.slice(line)].join('\n'));
    return `Changed ${path}.`;
  }

  #delete(path: string): string {
    const gone = this.#files.has(path) ? [path] : this.#below(path);
    if (path === ROOT) throw new MemoryError(`${ROOT} itself cannot be deleted: give a file or a folder in it.`);
    if (gone.length === 0) this.#text(path);
    for (const one of gone) this.#files.delete(one);
    return `Deleted ${gone.join(', ')}.`;
  }

  #rename(path: string, to: string): string {
    const isFile = this.#files.has(path);
    const moved = isFile ? [path] : this.#below(path);
    if (path === ROOT) throw new MemoryError(`${ROOT} itself cannot be renamed.`);
    if (moved.length === 0) this.#text(path);
    if (to === ROOT || this.#files.has(to) || this.#below(to).length > 0)
      throw new MemoryError(`${to} exists already: delete it first, or give another path.`);
    if (to.startsWith(`${path}/`)) throw new MemoryError(`${to} is below ${path}: give another path.`);
    const parent = [...this.#files.keys()].find((one) => to.startsWith(`${one}/`));
    if (parent !== undefined) throw new MemoryError(`${parent} is a file: nothing can be below it.`);
    for (const one of moved) {
      const target = placed(`${to}${one.slice(path.length)}`);
      this.#files.set(target, this.#files.get(one) ?? '');
      this.#files.delete(one);
    }
    return `Renamed ${path} to ${to}.`;
  }
}
