/** The body of a request, decompressed within a limit, as JSON or protobuf. */

import { promisify } from 'node:util';
import { gunzip, zstdDecompress } from 'node:zlib';
import { parseBody } from '../../endpoints/tinker/wire/bodies.ts';
import { ApiError } from '../http/api-error.ts';

export const JSON_TYPE = 'application/json';
export const PROTOBUF_TYPE = 'application/x-protobuf';

/** Of a decompressed body: a few bytes of zstd may stand for gigabytes. */
export const MOST_BYTES = 64 * 2 ** 20;

const METHODS = { zstd: promisify(zstdDecompress), gzip: promisify(gunzip) } as const;
const isMethod = (name: string): name is keyof typeof METHODS => name in METHODS;

/** Errors: `ApiError` 413 beyond the limit, 415 for another encoding, 400 for bytes that are not what they say. */
export async function decompress(body: Buffer, encoding: string | undefined, most = MOST_BYTES): Promise<Buffer> {
  const name = (encoding ?? 'identity').trim().toLowerCase();
  if (name === 'identity' || name === '') return body;
  if (!isMethod(name)) throw new ApiError(415, `content-encoding: send ${Object.keys(METHODS).join(', ')} or none`);
  try {
    return await METHODS[name](body, { maxOutputLength: most });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_BUFFER_TOO_LARGE') throw new ApiError(413, `a body may have at most ${most} bytes, decompressed`);
    throw new ApiError(400, `content-encoding: the body is not ${name} (${message})`);
  }
}

/** Errors: `ApiError` 400 for what is not JSON: NaN and infinities are none. */
export function readJson(body: Buffer): unknown {
  if (body.length === 0) return {};
  try {
    return parseBody(body.toString('utf8'));
  } catch (error) {
    throw new ApiError(400, `the body is not JSON (${(error as Error).message}); NaN and Infinity are none`);
  }
}
