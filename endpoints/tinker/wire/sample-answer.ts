/** `SampleResponse` as bytes and back. Arrays per position are row-major; an empty cell is token 0 with -99999. */

import { UserInputError } from '../../../protocol/user-input-error.ts';
import type { TinkerSampleResult } from '../../../protocol/tinker.ts';
import {
  fields,
  newWriter,
  readFields,
  readMessage,
  type Reader,
  tagOf,
  type Writer,
  writeMessage,
} from './protobuf.ts';
import { bytesOf, valuesOf } from './tensor.ts';

type Top = NonNullable<TinkerSampleResult['topPrompt']>;
type Sequence = TinkerSampleResult['sequences'][number];

const EMPTY_LOGPROB = -99999;
const STOP_REASONS = ['stop', 'length'] as const;
const MOST_CELLS = 2 ** 24;

function writeTop(writer: Writer, field: number, top: Top): void {
  const k = Math.max(0, ...top.map(({ length }) => length));
  const tokens = new Int32Array(top.length * k);
  const logprobs = new Float32Array(top.length * k).fill(EMPTY_LOGPROB);
  top.forEach((row, i) =>
    row.forEach(({ token, logprob }, j) => {
      tokens[i * k + j] = token;
      logprobs[i * k + j] = logprob;
    }),
  );
  writeMessage(writer, field, (w) =>
    w
      .uint32(tagOf(1, 'bytes'))
      .bytes(bytesOf(tokens, 'int32'))
      .uint32(tagOf(2, 'bytes'))
      .bytes(bytesOf(logprobs, 'float32'))
      .uint32(tagOf(3, 'varint'))
      .uint32(k)
      .uint32(tagOf(4, 'varint'))
      .uint32(top.length),
  );
}

function readTop(reader: Reader, field: string): Top {
  const none: Uint8Array = new Uint8Array(0);
  let [tokenBytes, logprobBytes, k, length] = [none, none, 0, 0];
  readFields(
    reader,
    reader.uint32(),
    fields(
      [1, 'bytes', (r) => (tokenBytes = r.bytes())],
      [2, 'bytes', (r) => (logprobBytes = r.bytes())],
      [3, 'varint', (r) => (k = r.uint32())],
      [4, 'varint', (r) => (length = r.uint32())],
    ),
  );
  const tokens = valuesOf(tokenBytes, 'int32', field);
  const logprobs = valuesOf(logprobBytes, 'float32', field);
  if (length > MOST_CELLS || tokens.length !== length * k || logprobs.length !== length * k)
    throw new UserInputError(field, `${tokens.length} cells`, `send ${length} × ${k} of them`);
  return Array.from({ length }, (_, i) =>
    Array.from({ length: k }, (__, j) => ({ token: tokens[i * k + j] ?? 0, logprob: logprobs[i * k + j] ?? 0 })).filter(
      ({ token, logprob }) => token !== 0 || logprob !== EMPTY_LOGPROB,
    ),
  );
}

export function encodeSampleAnswer({ sequences, promptLogprobs, topPrompt }: TinkerSampleResult): Uint8Array {
  const writer = newWriter();
  for (const { finish, tokens, logprobs, top } of sequences)
    writeMessage(writer, 1, (w) => {
      w.uint32(tagOf(1, 'varint'))
        .int32(STOP_REASONS.indexOf(finish))
        .uint32(tagOf(2, 'bytes'))
        .bytes(bytesOf(tokens, 'int32'))
        .uint32(tagOf(3, 'bytes'))
        .bytes(bytesOf(logprobs, 'float32'));
      if (top !== undefined) writeTop(w, 4, top);
    });
  if (promptLogprobs !== undefined) writer.uint32(tagOf(2, 'bytes')).bytes(bytesOf(promptLogprobs, 'float32'));
  if (topPrompt !== undefined) writeTop(writer, 3, topPrompt);
  return writer.finish();
}

function readSequence(reader: Reader): Sequence {
  let [finish, tokens, logprobs] = [0, new Int32Array(0), new Float32Array(0)];
  let top: Top | undefined;
  readFields(
    reader,
    reader.uint32(),
    fields(
      [1, 'varint', (r) => (finish = r.int32())],
      [2, 'bytes', (r) => (tokens = Int32Array.from(valuesOf(r.bytes(), 'int32', 'tokens')))],
      [3, 'bytes', (r) => (logprobs = Float32Array.from(valuesOf(r.bytes(), 'float32', 'logprobs')))],
      [4, 'bytes', (r) => (top = readTop(r, 'topk_sampled_logprobs'))],
    ),
  );
  const reason = STOP_REASONS[finish];
  if (reason === undefined) throw new UserInputError('stop_reason', finish, 'send 0 (stop) or 1 (length)');
  return { tokens, logprobs, finish: reason, ...(top === undefined ? {} : { top }) };
}

/** Errors: `UserInputError`. */
export function decodeSampleAnswer(bytes: Uint8Array): TinkerSampleResult {
  return readMessage('SampleResponse', bytes, (reader) => {
    const sequences: Sequence[] = [];
    let promptLogprobs: Float32Array | undefined;
    let topPrompt: Top | undefined;
    readFields(
      reader,
      bytes.length,
      fields(
        [1, 'bytes', (r) => sequences.push(readSequence(r))],
        [2, 'bytes', (r) => (promptLogprobs = Float32Array.from(valuesOf(r.bytes(), 'float32', 'prompt_logprobs')))],
        [3, 'bytes', (r) => (topPrompt = readTop(r, 'topk_prompt_logprobs'))],
      ),
    );
    return {
      sequences,
      ...(promptLogprobs === undefined ? {} : { promptLogprobs }),
      ...(topPrompt === undefined ? {} : { topPrompt }),
    };
  });
}
