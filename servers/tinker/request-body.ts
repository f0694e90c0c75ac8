/** The body of a request, decompressed within a limit, of the size that its route has. */

import { promisify } from 'node:util';
import { gunzip, zstdDecompress } from 'node:zlib';
import { ApiError } from '../http/api-error.ts';

export const JSON_TYPE = 'application/json';
export const PROTOBUF_TYPE = 'application/x-protobuf';

/** Of a decompressed body: a few bytes of zstd may stand for gigabytes. */
export const MOST_BYTES = 64 * 2 ** 20;
/** Of the body of a request that has no tokens, as it is sent and decompressed: metadata and names. */
export const SMALL_BYTES = 2 ** 20;
/** Of a list of all results that a client has. */
export const LIST_BYTES = 8 * 2 ** 20;

const METHODS = { zstd: promisify(zstdDecompress), gzip: promisify(gunzip) } as const;
const isMethod = (name: string): name is keyof typeof METHODS => Object.hasOwn(METHODS, name);

/** Runs at most `most` works at once; the others wait for their turn, in order. */
export class Turns {
  readonly #most: number;
  readonly #waiting: Array<() => void> = [];
  #running = 0;

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    // Who ends hands its place over, so that nobody else takes it meanwhile.
    if (this.#running >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}

/** Compressed bodies of all callers: their sizes are counted in the budget of bodies once they are known. */
const inflations = new Turns(2);

/**
 * `use` of the decompressed body, which is held by few at once: `use` only reads it. `hold` receives how many bytes
 * were made. Errors: as `decompress`; those of `hold`.
 */
export async function readBody<T>(
  body: Buffer,
  encoding: string | undefined,
  use: (body: Buffer) => T,
  {
    turns = inflations,
    hold = () => undefined,
    most = MOST_BYTES,
  }: { turns?: Turns; hold?: (bytes: number) => void; most?: number } = {},
): Promise<T> {
  if (isPlain(encoding)) return use(body);
  return turns.run(async () => {
    const plain = await decompress(body, encoding, most);
    hold(plain.length);
    return use(plain);
  });
}

const isPlain = (encoding: string | undefined) => ['', 'identity'].includes((encoding ?? '').trim().toLowerCase());

/** Errors: `ApiError` 413 beyond the limit, 415 for another encoding, 400 for bytes that are not what they say. */
export async function decompress(body: Buffer, encoding: string | undefined, most = MOST_BYTES): Promise<Buffer> {
  if (isPlain(encoding)) return body;
  const name = (encoding ?? '').trim().toLowerCase();
  if (!isMethod(name)) throw new ApiError(415, `content-encoding: send ${Object.keys(METHODS).join(', ')} or none`);
  try {
    return await METHODS[name](body, { maxOutputLength: most });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_BUFFER_TOO_LARGE') throw new ApiError(413, `a body may have at most ${most} bytes, decompressed`);
    throw new ApiError(400, `content-encoding: the body is not ${name} (${message})`);
  }
}
