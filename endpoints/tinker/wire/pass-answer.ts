/** `ForwardBackwardOutput` as bytes and back: one field, `logprobs`, with an array per datum, and the metrics. */

import { UserInputError } from '../../../protocol/user-input-error.ts';
import type { TinkerPassResult } from '../../../protocol/tinker.ts';
import {
  fields,
  int64,
  newWriter,
  readEntry,
  readFields,
  readMessage,
  type Reader,
  tagOf,
  writeMessage,
} from './protobuf.ts';
import { bytesOf, dtypeNumber, dtypeOf, valuesOf } from './tensor.ts';

const FIELD = 'logprobs';

export function encodePassAnswer({ logprobs, metrics }: TinkerPassResult): Uint8Array {
  const writer = newWriter();
  writer.uint32(tagOf(1, 'bytes')).string('ArrayRecord');
  const offsets = [0];
  for (const { byteLength } of logprobs) offsets.push((offsets.at(-1) ?? 0) + byteLength);
  const all = new Uint8Array(offsets.at(-1) ?? 0);
  logprobs.forEach((array, i) => all.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), offsets[i]));
  writeMessage(writer, 2, (record) => {
    record.uint32(tagOf(1, 'bytes')).string('ArrayRecord');
    writeMessage(record, 2, (entry) => {
      entry.uint32(tagOf(1, 'bytes')).string(FIELD);
      writeMessage(entry, 2, (tensor) =>
        tensor
          .uint32(tagOf(1, 'bytes'))
          .bytes(all)
          .uint32(tagOf(2, 'bytes'))
          .bytes(bytesOf(offsets, 'int64'))
          .uint32(tagOf(3, 'varint'))
          .int32(dtypeNumber('float32')),
      );
    });
    record.uint32(tagOf(3, 'varint')).int64(logprobs.length);
  });
  for (const [name, value] of Object.entries(metrics))
    writeMessage(writer, 3, (entry) => {
      entry.uint32(tagOf(1, 'bytes')).string(name).uint32(tagOf(2, 'double')).double(value);
    });
  return writer.finish();
}

/** The arrays of one `BatchedTensor`, whose offsets count bytes. */
function readBatched(reader: Reader): Float32Array[] {
  const none: Uint8Array = new Uint8Array(0);
  let [data, offsets, dtype] = [none, none, 0];
  readFields(
    reader,
    reader.uint32(),
    fields(
      [1, 'bytes', (r) => (data = r.bytes())],
      [2, 'bytes', (r) => (offsets = r.bytes())],
      [3, 'varint', (r) => (dtype = r.int32())],
    ),
  );
  const type = dtypeOf(dtype, FIELD);
  const at = valuesOf(offsets, 'int64', `${FIELD}.offsets`);
  return Array.from(at.subarray(1), (to, i) => {
    const from = at[i] ?? 0;
    if (!(from >= 0 && to >= from && to <= data.length))
      throw new UserInputError(`${FIELD}.offsets`, to, `give offsets that do not fall, up to ${data.length}`);
    return Float32Array.from(valuesOf(data.subarray(from, to), type, FIELD));
  });
}

/** Errors: `UserInputError`, also if there are other numbers of arrays than of datums. */
export function decodePassAnswer(bytes: Uint8Array): TinkerPassResult {
  return readMessage('ForwardBackwardOutput', bytes, (reader) => {
    const logprobs: Float32Array[] = [];
    const metrics = new Map<string, number>();
    let datums = 0;
    const record = fields(
      [
        2,
        'bytes',
        (r) => {
          const [name, arrays] = readEntry<Float32Array[]>(r, (take) =>
            fields([2, 'bytes', (s) => take(readBatched(s))]),
          );
          if (name === FIELD) logprobs.push(...(arrays ?? []));
        },
      ],
      [3, 'varint', (r) => (datums += int64(r))],
    );
    readFields(
      reader,
      bytes.length,
      fields(
        [2, 'bytes', (r) => readFields(r, r.uint32(), record)],
        [
          3,
          'bytes',
          (r) => {
            const [name, value] = readEntry<number>(r, (take) => fields([2, 'double', (s) => take(s.double())]));
            metrics.set(name, value ?? 0);
          },
        ],
      ),
    );
    if (datums > 0 && datums !== logprobs.length)
      throw new UserInputError(FIELD, `${logprobs.length} arrays`, `send one per datum (${datums})`);
    return { logprobs, metrics: Object.fromEntries(metrics) };
  });
}
