/**
 * The files of an export: written into a folder aside, which takes its name when all of them are complete. A folder
 * that has files is never touched.
 */

import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';

const BUFFERED = 1 << 20;

/** A file of lines that grows: at most a mebibyte of them is in memory. */
export class LineFile {
  readonly #handle: FileHandle;
  #lines: string[] = [];
  #buffered = 0;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  static async create(file: string): Promise<LineFile> {
    return new LineFile(await open(file, 'wx'));
  }

  async add(value: unknown): Promise<void> {
    const line = `${JSON.stringify(value)}\n`;
    this.#lines.push(line);
    this.#buffered += line.length;
    if (this.#buffered >= BUFFERED) await this.#flush();
  }

  async #flush(): Promise<void> {
    await this.#handle.writeFile(this.#lines.join(''));
    [this.#lines, this.#buffered] = [[], 0];
  }

  async close(): Promise<void> {
    try {
      await this.#flush();
      await this.#handle.sync();
    } finally {
      await this.#handle.close();
    }
  }
}

/** Writes a file that has its place to itself. */
export async function writeWhole(file: string, content: string | Uint8Array): Promise<void> {
  const handle = await open(file, 'wx');
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Errors: `UserInputError` for `--out` unless the folder is missing or empty. */
export async function checkFree(out: string): Promise<void> {
  const names = await readdir(out).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw new UserInputError('--out', out, `give a folder that can be written (${error.code ?? error.message})`);
  });
  if (names.length > 0)
    throw new UserInputError('--out', out, 'it has files already: give a new folder, or an empty one');
}

/**
 * Lets `write` fill a folder beside `out`, then gives it the name `out`. If it fails, nothing is left. Errors:
 * `UserInputError`, and those of `write`.
 */
export async function writeFolder<T>(out: string, write: (folder: string) => Promise<T>): Promise<T> {
  const place = resolve(out);
  await checkFree(place);
  const aside = join(dirname(place), `.${process.pid}-${Date.now()}-export.partial`);
  try {
    await mkdir(aside, { recursive: true });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new UserInputError('--out', out, `give a folder that can be written (${code ?? message})`, { cause: error });
  }
  try {
    const written = await write(aside);
    await checkFree(place);
    await rename(aside, place);
    return written;
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  }
}
