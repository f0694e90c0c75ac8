/** `ForwardBackwardRequest` as bytes and back, and its older JSON form. What the loss needs is checked elsewhere. */

import { UserInputError } from '../../../protocol/user-input-error.ts';
import {
  embedded,
  fields,
  newWriter,
  readEntry,
  readFields,
  readMessage,
  type Reader,
  tagOf,
  writeMessage,
  type Writer,
} from './protobuf.ts';
import { bytesOf, readTensor, SparseBudget, valuesOf, type WireTensor, writeTensor } from './tensor.ts';

export interface WireDatum {
  readonly tokens: Int32Array;
  /** `target_tokens`, `weights`, `logprobs`, `advantages`, … */
  readonly inputs: Readonly<Record<string, WireTensor>>;
}

export interface PassRequest {
  readonly modelId: string;
  /** From 1. */
  readonly seq: number;
  readonly loss: string;
  readonly config: Readonly<Record<string, number | string>>;
  readonly forwardOnly: boolean;
  readonly data: readonly WireDatum[];
}

/** The SDK sends at most 1,024 at once. */
export const MOST_DATUMS = 16_384;
const MOST_INPUTS = 32;

/** Chunks of text in their order. Errors: `UserInputError` for images and audio. */
export function joinTokens(chunks: readonly Int32Array[]): Int32Array {
  const [only] = chunks;
  if (only !== undefined && chunks.length === 1) return only;
  const joined = new Int32Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    joined.set(chunk, at);
    at += chunk.length;
  }
  return joined;
}

export const onlyText = (what: string, field: string): UserInputError =>
  new UserInputError(field, what, 'send chunks of type encoded_text: the models here read text alone');

function readChunk(reader: Reader, field: string, chunks: Int32Array[]): void {
  const refuse = (what: string) => () => {
    throw onlyText(what, field);
  };
  const text = () =>
    fields([1, 'bytes', (r) => chunks.push(Int32Array.from(valuesOf(r.bytes(), 'int32', `${field}.tokens`)))]);
  readFields(
    reader,
    reader.uint32(),
    fields([1, 'bytes', embedded(text)], [2, 'bytes', refuse('image')], [3, 'bytes', refuse('dmel')]),
  );
}

function readDatum(reader: Reader, field: string, budget: SparseBudget): WireDatum {
  const chunks: Int32Array[] = [];
  const inputs = new Map<string, WireTensor>();
  readFields(
    reader,
    reader.uint32(),
    fields(
      [1, 'bytes', (r) => readChunk(r, `${field}.model_input`, chunks)],
      [
        2,
        'bytes',
        (r) => {
          const [name, tensor] = readEntry<WireTensor>(r, (take) =>
            fields([2, 'bytes', (s) => take(readTensor(s, `${field}.loss_fn_inputs`, budget))]),
          );
          if (inputs.size >= MOST_INPUTS)
            throw new UserInputError(`${field}.loss_fn_inputs`, name, `send at most ${MOST_INPUTS} inputs`);
          if (tensor !== undefined) inputs.set(name, tensor);
        },
      ],
    ),
  );
  return { tokens: joinTokens(chunks), inputs: Object.fromEntries(inputs) };
}

function readConfigValue(take: (value: number | string) => void) {
  return fields([1, 'double', (r) => take(r.double())], [2, 'bytes', (r) => take(r.string())]);
}

/** Errors: `UserInputError`. */
export function decodePassRequest(bytes: Uint8Array): PassRequest {
  return readMessage('ForwardBackwardRequest', bytes, (reader) => {
    let [modelId, seq, loss, forwardOnly] = ['', 0, '', false];
    const data: WireDatum[] = [];
    const budget = new SparseBudget();
    const [legacy, config] = [new Map<string, number>(), new Map<string, number | string>()];
    const known = fields(
      [1, 'bytes', (r) => (modelId = r.string())],
      [2, 'varint', (r) => (seq = r.int32())],
      [
        3,
        'bytes',
        (r) => {
          if (data.length >= MOST_DATUMS)
            throw new UserInputError('data', `over ${MOST_DATUMS} datums`, `send at most ${MOST_DATUMS} at once`);
          data.push(readDatum(r, `data[${data.length}]`, budget));
        },
      ],
      [4, 'bytes', (r) => (loss = r.string())],
      [
        5,
        'bytes',
        (r) => {
          const [name, value] = readEntry<number>(r, (take) => fields([2, 'double', (s) => take(s.double())]));
          legacy.set(name, value ?? 0);
        },
      ],
      [6, 'varint', (r) => (forwardOnly = r.bool())],
      [
        7,
        'bytes',
        (r) => {
          const [name, value] = readEntry<number | string>(r, (take) =>
            fields([2, 'bytes', embedded(() => readConfigValue(take))]),
          );
          config.set(name, value ?? 0);
        },
      ],
    );
    readFields(reader, bytes.length, known);
    // Both are written while clients move to the second one, which also has texts.
    const chosen = config.size > 0 ? config : legacy;
    return { modelId, seq, loss, forwardOnly, data, config: Object.fromEntries(chosen) };
  });
}

function writeEntry(writer: Writer, field: number, key: string, value: (writer: Writer) => void): void {
  writeMessage(writer, field, (entry) => {
    entry.uint32(tagOf(1, 'bytes')).string(key);
    value(entry);
  });
}

/** `sparse`: tensors of two dimensions in CSR. */
export function encodePassRequest(request: PassRequest, { sparse = false } = {}): Uint8Array {
  const writer = newWriter();
  writer.uint32(tagOf(1, 'bytes')).string(request.modelId).uint32(tagOf(2, 'varint')).int32(request.seq);
  for (const { tokens, inputs } of request.data)
    writeMessage(writer, 3, (datum) => {
      writeMessage(datum, 1, (chunk) =>
        writeMessage(chunk, 1, (text) => void text.uint32(tagOf(1, 'bytes')).bytes(bytesOf(tokens, 'int32'))),
      );
      for (const [name, tensor] of Object.entries(inputs))
        writeEntry(datum, 2, name, (entry) => writeTensor(entry, 2, tensor, sparse));
    });
  writer.uint32(tagOf(4, 'bytes')).string(request.loss);
  for (const [name, value] of Object.entries(request.config)) {
    if (typeof value === 'number')
      writeEntry(writer, 5, name, (entry) => void entry.uint32(tagOf(2, 'double')).double(value));
    writeEntry(writer, 7, name, (entry) =>
      writeMessage(entry, 2, (v) =>
        typeof value === 'number'
          ? void v.uint32(tagOf(1, 'double')).double(value)
          : void v.uint32(tagOf(2, 'bytes')).string(value),
      ),
    );
  }
  if (request.forwardOnly) writer.uint32(tagOf(6, 'varint')).bool(true);
  return writer.finish();
}
