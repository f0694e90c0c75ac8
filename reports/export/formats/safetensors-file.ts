/** A safetensors file of integers and floats, for readers in Python. Tensors are written one by one, in order. */

import { open } from 'node:fs/promises';

/** `I64`: whole numbers. `F32`: floats. Values in row-major order. */
export interface Matrix {
  readonly dtype: 'I64' | 'F32';
  readonly shape: readonly number[];
  readonly data: BigInt64Array | Float32Array;
}

/** The file must not exist. Data are in the byte order of this machine, which is little-endian everywhere Node runs. */
export async function writeMatrices(file: string, matrices: Readonly<Record<string, Matrix>>): Promise<void> {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let at = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(matrices)) {
    header[name] = { dtype, shape, data_offsets: [at, at + data.byteLength] };
    at += data.byteLength;
  }
  const json = JSON.stringify(header);
  const padded = Buffer.from(json + ' '.repeat((8 - (Buffer.byteLength(json) % 8)) % 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  const handle = await open(file, 'wx');
  try {
    await handle.writeFile(Buffer.concat([length, padded]));
    for (const { data } of Object.values(matrices))
      await handle.writeFile(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    await handle.sync();
  } finally {
    await handle.close();
  }
}
