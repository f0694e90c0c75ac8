/**
 * Tensors on the wire, dense or sparse (CSR), as numbers and back. Bytes are little-endian, as on every machine that
 * this runs on. A decoded tensor has exactly the elements that its shape says.
 */

import { UserInputError } from '../../../protocol/user-input-error.ts';
import {
  type Reader,
  type Writer,
  fields,
  readFields,
  readInt64s,
  tagOf,
  writeInt64s,
  writeMessage,
} from './protobuf.ts';

/** By their numbers in the message. */
const DTYPES = ['unspecified', 'float32', 'int64', 'int32', 'bfloat16'] as const;
export type WireDtype = Exclude<(typeof DTYPES)[number], 'unspecified'>;

export interface WireTensor {
  readonly dtype: WireDtype;
  /** Its product is the number of values. */
  readonly shape: readonly number[];
  /** Row-major. Integers are exact; none is beyond 2^53. */
  readonly values: Float32Array | Float64Array;
}

/** Of one tensor: a sparse one of a few bytes may have any shape. */
const MOST_ELEMENTS = 2 ** 24;
const WIDTH: Readonly<Record<WireDtype, number>> = { float32: 4, int64: 8, int32: 4, bfloat16: 2 };

export function dtypeOf(number: number, field: string): WireDtype {
  const name = DTYPES[number];
  if (name === undefined || name === 'unspecified')
    throw new UserInputError(`${field}.dtype`, number, 'give 1 (float32), 2 (int64), 3 (int32) or 4 (bfloat16)');
  return name;
}

export const dtypeNumber = (dtype: WireDtype): number => DTYPES.indexOf(dtype);

/** A copy, since the bytes of a field need not be aligned. */
const aligned = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer;

/** Errors: `UserInputError` for a number of bytes that is no multiple of the width, and for integers beyond 2^53. */
export function valuesOf(bytes: Uint8Array, dtype: WireDtype, field: string): Float32Array | Float64Array {
  if (bytes.length % WIDTH[dtype] !== 0)
    throw new UserInputError(field, `${bytes.length} bytes`, `send a multiple of ${WIDTH[dtype]} bytes for ${dtype}`);
  const buffer = aligned(bytes);
  switch (dtype) {
    case 'float32':
      return new Float32Array(buffer);
    case 'int32':
      return Float64Array.from(new Int32Array(buffer));
    case 'bfloat16': {
      const upper = new Uint16Array(buffer);
      return new Float32Array(Uint32Array.from(upper, (half) => half << 16).buffer);
    }
    case 'int64':
      return Float64Array.from(new BigInt64Array(buffer), (value) => exact(value, field));
  }
}

function exact(value: bigint, field: string): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new UserInputError(field, String(value), 'give integers within ±2^53');
  return number;
}

export function bytesOf(values: ArrayLike<number>, dtype: WireDtype): Uint8Array {
  switch (dtype) {
    case 'float32':
      return new Uint8Array(Float32Array.from(values).buffer);
    case 'int32':
      return new Uint8Array(Int32Array.from(values).buffer);
    case 'int64':
      return new Uint8Array(BigInt64Array.from(Array.from(values, (value) => BigInt(value))).buffer);
    case 'bfloat16': {
      const whole = new Uint32Array(Float32Array.from(values).buffer);
      // Round to nearest, ties to even; a NaN stays one.
      return new Uint8Array(
        Uint16Array.from(whole, (bits) =>
          (bits & 0x7fffffff) > 0x7f800000 ? (bits >>> 16) | 0x40 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16,
        ).buffer,
      );
    }
  }
}

function countOf(shape: readonly number[], field: string): number {
  const count = shape.reduce((product, size) => product * size, 1);
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0) || count > MOST_ELEMENTS)
    throw new UserInputError(
      `${field}.shape`,
      shape,
      `give sizes of at least 0, with at most ${MOST_ELEMENTS} elements`,
    );
  return count;
}

/** Elements that the sparse tensors of one request may have together: their bytes do not bound them. */
export class SparseBudget {
  #left = MOST_ELEMENTS;

  /** Errors: `UserInputError`, before anything is allocated. */
  take(count: number, field: string): void {
    this.#left -= count;
    if (this.#left >= 0) return;
    throw new UserInputError(
      `${field}.shape`,
      `${count} elements`,
      `send sparse tensors of at most ${MOST_ELEMENTS} elements together in a request`,
    );
  }
}

export interface SparseParts {
  readonly values: Float32Array | Float64Array;
  readonly crow: ArrayLike<number>;
  readonly col: ArrayLike<number>;
}

/** Zero where nothing is listed. Errors: `UserInputError` for pointers and columns that do not fit the shape. */
export function densify(
  parts: SparseParts,
  dtype: WireDtype,
  shape: readonly number[],
  field: string,
  budget: SparseBudget,
): WireTensor {
  const count = countOf(shape, field);
  const [rows, columns, ...rest] = shape;
  if (rows === undefined || columns === undefined || rest.length > 0)
    throw new UserInputError(`${field}.shape`, shape, 'give two sizes for a sparse tensor');
  const { values: listed, crow, col } = parts;
  if (crow.length !== rows + 1 || crow[0] !== 0 || crow[rows] !== listed.length || col.length !== listed.length)
    throw new UserInputError(
      field,
      `${crow.length} row pointers, ${col.length} columns, ${listed.length} values`,
      `send ${rows + 1} row pointers from 0 to the number of values, and a column per value`,
    );
  budget.take(count, field);
  const values = dtype === 'float32' || dtype === 'bfloat16' ? new Float32Array(count) : new Float64Array(count);
  for (let row = 0; row < rows; row += 1) {
    const [from = 0, to = 0] = [crow[row], crow[row + 1]];
    if (to < from || to > listed.length)
      throw new UserInputError(field, `row pointers ${from}, ${to}`, 'send row pointers that do not fall');
    for (let i = from; i < to; i += 1) {
      const column = col[i] ?? -1;
      if (!(column >= 0 && column < columns))
        throw new UserInputError(field, `column ${column}`, `send columns from 0 to ${columns - 1}`);
      values[row * columns + column] = listed[i] ?? 0;
    }
  }
  return { dtype, shape, values };
}

/** A dense tensor. Without a shape it has one dimension. Errors: `UserInputError` if the shape has another size. */
export function denseTensor(
  values: Float32Array | Float64Array,
  dtype: WireDtype,
  given: readonly number[],
  field: string,
): WireTensor {
  const shape = given.length === 0 ? [values.length] : given;
  if (countOf(shape, field) !== values.length)
    throw new UserInputError(field, `${values.length} values`, `send as many as the shape [${shape.join(', ')}] has`);
  return { dtype, shape, values };
}

/** Reads a `Tensor` that is a field's value. */
export function readTensor(reader: Reader, field: string, budget: SparseBudget): WireTensor {
  const shape: number[] = [];
  let dtype = 0;
  let dense: Uint8Array | undefined;
  let sparse: Record<'values' | 'crow' | 'col', Uint8Array> | undefined;
  readFields(
    reader,
    reader.uint32(),
    new Map([
      [tagOf(1, 'bytes'), (r: Reader) => (dense = r.bytes())],
      [
        tagOf(2, 'bytes'),
        (r: Reader) => {
          const none: Uint8Array = new Uint8Array(0);
          const parts = { values: none, crow: none, col: none };
          readFields(
            r,
            r.uint32(),
            fields(
              [1, 'bytes', (s) => (parts.values = s.bytes())],
              [2, 'bytes', (s) => (parts.crow = s.bytes())],
              [3, 'bytes', (s) => (parts.col = s.bytes())],
            ),
          );
          sparse = parts;
        },
      ],
      [tagOf(3, 'varint'), (r: Reader) => (dtype = r.int32())],
      ...readInt64s(4, shape),
    ] as ReadonlyArray<readonly [number, (r: Reader) => void]>),
  );
  const type = dtypeOf(dtype, field);
  if (sparse === undefined) return denseTensor(valuesOf(dense ?? new Uint8Array(0), type, field), type, shape, field);
  const parts = {
    values: valuesOf(sparse.values, type, field),
    crow: valuesOf(sparse.crow, 'int64', field),
    col: valuesOf(sparse.col, 'int64', field),
  };
  return densify(parts, type, shape, field, budget);
}

/** The listed values of a tensor of two dimensions: those that are not zero. */
export function sparseParts({ shape, values }: WireTensor): SparseParts {
  const [rows = 0, columns = 0] = shape;
  const [crow, col, listed] = [[0], new Array<number>(), new Array<number>()];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const value = values[row * columns + column] ?? 0;
      if (value === 0) continue;
      col.push(column);
      listed.push(value);
    }
    crow.push(listed.length);
  }
  return { values: Float64Array.from(listed), crow, col };
}

/** Writes a `Tensor` under `field`; in CSR if it has two dimensions and `sparse` is asked for. */
export function writeTensor(writer: Writer, field: number, tensor: WireTensor, sparse = false): void {
  writeMessage(writer, field, (w) => {
    if (sparse && tensor.shape.length === 2) {
      const { values, crow, col } = sparseParts(tensor);
      writeMessage(w, 2, (s) =>
        s
          .uint32(tagOf(1, 'bytes'))
          .bytes(bytesOf(values, tensor.dtype))
          .uint32(tagOf(2, 'bytes'))
          .bytes(bytesOf(crow, 'int64'))
          .uint32(tagOf(3, 'bytes'))
          .bytes(bytesOf(col, 'int64')),
      );
    } else w.uint32(tagOf(1, 'bytes')).bytes(bytesOf(tensor.values, tensor.dtype));
    w.uint32(tagOf(3, 'varint')).int32(dtypeNumber(tensor.dtype));
    writeInt64s(w, 4, tensor.shape);
  });
}
