/** The wire of the Tinker API against bytes that the SDK's own classes wrote (`fixtures/wire.py`). */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import protobuf from 'protobufjs/minimal.js';
import { decodePassAnswer, encodePassAnswer } from '../../../endpoints/tinker/wire/pass-answer.ts';
import { decodePassRequest, encodePassRequest, type PassRequest } from '../../../endpoints/tinker/wire/pass-request.ts';
import { decodeSampleAnswer, encodeSampleAnswer } from '../../../endpoints/tinker/wire/sample-answer.ts';
import { bytesOf, densify, SparseBudget, valuesOf } from '../../../endpoints/tinker/wire/tensor.ts';

const written = JSON.parse(readFileSync(new URL('fixtures/wire.json', import.meta.url), 'utf8')) as Record<
  string,
  string
>;
const bytes = (name: string) => Buffer.from(written[name]!, 'base64');
const listed = ({ data }: PassRequest) =>
  data.map(({ tokens, inputs }) => ({
    tokens: [...tokens],
    ...Object.fromEntries(Object.entries(inputs).map(([name, { values }]) => [name, [...values]])),
  }));

describe('a pass request of the SDK', () => {
  it('is read with its chunks joined and its tensors exact', () => {
    const read = decodePassRequest(bytes('plain'));
    expect(read).toMatchObject({ modelId: 's:train:0', seq: 7, loss: 'cross_entropy', forwardOnly: false, config: {} });
    expect(listed(read)).toEqual([{ tokens: [1, 2, 300], target_tokens: [2, 300, 511], weights: [0, 1, -0.5] }]);
    expect(read.data[0]!.inputs.weights).toMatchObject({ dtype: 'float32', shape: [3] });
  });

  it('is read with the forward flag and with several datums', () => {
    const read = decodePassRequest(bytes('forward'));
    expect(read.forwardOnly).toBe(true);
    expect(read.data.map(({ tokens }) => tokens.length)).toEqual([3, 2]);
  });

  it('is read with numbers and texts of its configuration; the older map counts where it is alone', () => {
    const { config, data } = decodePassRequest(bytes('policy'));
    expect(config).toEqual({ clip_low_threshold: 0.9, loss_id: 'x' });
    expect(data).toHaveLength(2);
    expect(decodePassRequest(bytes('legacy')).config).toEqual({ clip_low_threshold: 0.5 });
  });

  it('is read where its tensors are sparse, of int32, or of bfloat16', () => {
    const sparse = decodePassRequest(bytes('sparse')).data[0]!.inputs;
    expect(sparse.target_tokens).toMatchObject({ shape: [3, 4], dtype: 'int64' });
    expect([...sparse.target_tokens!.values]).toEqual([0, 0, 9, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
    const [wide] = listed(decodePassRequest(bytes('wide')));
    expect(wide).toEqual({ tokens: [1, 2], target_tokens: [3, -4], weights: [1, -2.5] });
  });

  it('is refused by name for an image', () => {
    expect(() => decodePassRequest(bytes('image'))).toThrow(/data\[0\]\.model_input: "image".*encoded_text/);
  });

  it('is refused, and never crashes the reader, where it is cut or no message', () => {
    const whole = bytes('plain');
    for (let length = 1; length < whole.length; length += 1) {
      try {
        decodePassRequest(whole.subarray(0, length));
      } catch (error) {
        expect((error as Error).name).toBe('UserInputError');
      }
    }
    expect(() => decodePassRequest(Buffer.from('{"model_id": "x"}'))).toThrow(/ForwardBackwardRequest/);
  });

  it.each(['plain', 'forward', 'policy', 'sparse', 'wide', 'legacy'])('%s: what we write reads the same', (name) => {
    const read = decodePassRequest(bytes(name));
    expect(decodePassRequest(encodePassRequest(read))).toEqual(read);
    expect(decodePassRequest(encodePassRequest(read, { sparse: true }))).toEqual(read);
  });
});

describe('tensors', () => {
  it('are refused where the shape, the pointers or the width do not fit', () => {
    const parts = { values: Float32Array.of(1), crow: [0, 1], col: [5] };
    expect(() => densify(parts, 'float32', [1, 4], 'w', new SparseBudget())).toThrow(/column 5/);
    expect(() => densify({ ...parts, crow: [0, 2] }, 'float32', [1, 4], 'w', new SparseBudget())).toThrow(
      /row pointers/,
    );
    expect(() => densify({ ...parts, crow: [0, 3, 1], col: [0] }, 'float32', [2, 4], 'w', new SparseBudget())).toThrow(
      /do not fall/,
    );
    expect(() => densify(parts, 'float32', [1, 2 ** 40], 'w', new SparseBudget())).toThrow(/elements/);
    expect(() => valuesOf(Buffer.from('abc'), 'float32', 'w')).toThrow(/multiple of 4/);
    expect(() => valuesOf(bytesOf([1], 'int64').fill(0x7f), 'int64', 'w')).toThrow(/2\^53/);
  });

  it('that are sparse have a number of elements together, whatever their bytes', () => {
    const rows = 2 ** 12;
    const wide = { dtype: 'float32' as const, shape: [rows, 1024], values: new Float32Array(rows * 1024) };
    const request = (datums: number) =>
      encodePassRequest(
        {
          modelId: 'm',
          seq: 1,
          loss: 'cross_entropy',
          config: {},
          forwardOnly: false,
          data: Array.from({ length: datums }, () => ({ tokens: Int32Array.of(1), inputs: { weights: wide } })),
        },
        { sparse: true },
      );
    expect(decodePassRequest(request(4)).data).toHaveLength(4);
    expect(() => decodePassRequest(request(5))).toThrow(/data\[4\].*16777216 elements together/);
  });

  it('of bfloat16 round to the nearest, ties to even', () => {
    const near = valuesOf(bytesOf([1 + 2 ** -8, 1 + 3 * 2 ** -8, NaN, -2.5], 'bfloat16'), 'bfloat16', 'w');
    expect([...near]).toEqual([1, 1 + 2 ** -6, NaN, -2.5]);
  });
});

describe('answers', () => {
  it('of a pass are read over several records, with empty datums', () => {
    const { logprobs, metrics } = decodePassAnswer(bytes('output'));
    expect(logprobs.map((row) => [...row])).toEqual([[-1, -2], [], [-0.5]]);
    expect(metrics).toEqual({ 'loss:sum': 2.5 });
    expect(decodePassAnswer(encodePassAnswer({ logprobs, metrics }))).toEqual({ logprobs, metrics });
  });

  it('of a pass with offsets outside of the data are refused', () => {
    const cut = encodePassAnswer({ logprobs: [Float32Array.of(1)], metrics: {} });
    const at = Buffer.from(cut).indexOf(bytesOf([0, 4], 'int64'));
    cut.set(bytesOf([0, 400], 'int64'), at);
    expect(() => decodePassAnswer(cut)).toThrow(/offsets/);
  });

  it('of samples are read; empty cells are none', () => {
    const read = decodeSampleAnswer(bytes('sample'));
    expect(read.sequences).toEqual([
      { tokens: Int32Array.of(4, 5), logprobs: Float32Array.of(-1, -2), finish: 'length' },
    ]);
    expect([...read.promptLogprobs!]).toEqual([NaN, -0.5]);
    expect(read.topPrompt).toEqual([
      [],
      [
        { token: 7, logprob: -0.25 },
        { token: 0, logprob: -1.25 },
      ],
    ]);
    expect(decodeSampleAnswer(encodeSampleAnswer(read))).toEqual(read);
  });

  it('of samples keep the likeliest per token, and the reason', () => {
    const answer = {
      sequences: [
        {
          tokens: Int32Array.of(1),
          logprobs: Float32Array.of(-0.5),
          finish: 'stop' as const,
          top: [[{ token: 1, logprob: -0.5 }]],
        },
      ],
    };
    expect(decodeSampleAnswer(encodeSampleAnswer(answer))).toEqual(answer);
  });

  it('of another kind are refused', () => {
    const unknown = protobuf.Writer.create().uint32(10).fork().uint32(8).int32(9).ldelim().finish();
    expect(() => decodeSampleAnswer(unknown)).toThrow(/stop_reason/);
  });
});
