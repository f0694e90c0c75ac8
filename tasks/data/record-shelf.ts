/**
 * JSON values by index, which are kept in memory while they are few, and in an unnamed file of the temporary folder
 * after that: what is put is got, whatever happens to the file that it was read from.
 */

import { closeSync, openSync, read, unlinkSync, writeSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Bytes in memory. */
const BLOCK = 4 * 1024 * 1024;
const readAt = promisify(read);

/** The file ends with the shelf, or with the process. */
const abandoned = new FinalizationRegistry<number>((fd) => closeSync(fd));

export class RecordShelf {
  /** The beginning of each value, and the end of the last one. */
  #ends = new Float64Array(1024);
  #size = 0;
  /** What is not in the file. */
  #block = Buffer.allocUnsafe(64 * 1024);
  #inBlock = 0;
  #inFile = 0;
  #fd: number | undefined;

  get size(): number {
    return this.#size;
  }

  /** Errors: those of writing the file. */
  put(value: unknown): void {
    const text = Buffer.from(JSON.stringify(value));
    if (this.#inBlock + text.length > BLOCK && this.#inBlock > 0) this.#write(this.#block.subarray(0, this.#inBlock));
    if (text.length > BLOCK) this.#write(text);
    else this.#add(text);
    this.#size += 1;
    if (this.#size === this.#ends.length) {
      const longer = new Float64Array(2 * this.#size);
      longer.set(this.#ends);
      this.#ends = longer;
    }
    this.#ends[this.#size] = this.#inFile + this.#inBlock;
  }

  /** `undefined` if there is no such value. Errors: those of reading the file. */
  async get(index: number): Promise<unknown> {
    if (!Number.isInteger(index) || index < 0 || index >= this.#size) return undefined;
    const [from = 0, to = 0] = this.#ends.subarray(index, index + 2);
    if (from >= this.#inFile) return JSON.parse(this.#block.toString('utf8', from - this.#inFile, to - this.#inFile));
    const bytes = Buffer.alloc(to - from);
    const { bytesRead } = await readAt(this.#fd ?? -1, bytes, 0, bytes.length, from);
    // The second test keeps the shelf, and so its file, until here.
    if (bytesRead < bytes.length || this.#fd === undefined)
      throw new Error(`record ${index}: the temporary file ends too early`);
    return JSON.parse(bytes.toString('utf8'));
  }

  #add(text: Buffer): void {
    while (this.#inBlock + text.length > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.min(BLOCK, 2 * this.#block.length));
      this.#block.copy(larger, 0, 0, this.#inBlock);
      this.#block = larger;
    }
    text.copy(this.#block, this.#inBlock);
    this.#inBlock += text.length;
  }

  #write(bytes: Buffer): void {
    this.#fd ??= this.#open();
    for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
    this.#inFile += bytes.length;
    this.#inBlock = 0;
  }

  #open(): number {
    const path = join(tmpdir(), `longhaul-records-${randomUUID()}`);
    const fd = openSync(path, 'wx+', 0o600);
    unlinkSync(path);
    abandoned.register(this, fd);
    return fd;
  }
}
