/**
 * Hunts pushes that are made twice, that leave their server worse than they found it, or whose label names other files;
 * answers that do not say what sampled them; and refusals that are waited out. Not asserted: real vLLM and SGLang.
 */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { parseSamplerUri } from '../../../protocol/sampler-uri.ts';
import { readCheckpoint } from '../../../endpoints/samplers/checkpoint.ts';
import { holdVersion, patienceOf } from '../../../endpoints/samplers/hold-version.ts';
import { SamplerServer } from '../../../endpoints/samplers/sampler-server.ts';
import { vllmWeights } from '../../../endpoints/samplers/vllm-weights.ts';
import { inScratch } from '../../trainer/tiny-policy.ts';
import { ask, checkpoint, type Form, type Kind, sampledBy, signal, uriOf } from './sampler-calls.ts';
import { SamplerTestServer, STARTED_WITH } from './sampler-test-server.ts';

const cases: ReadonlyArray<readonly [Kind, Form, load: string]> = [
  ['vllm', 'whole', 'collective_rpc'],
  ['vllm', 'adapter', 'v1/load_lora_adapter'],
  ['sglang', 'whole', 'update_weights_from_disk'],
  ['sglang', 'adapter', 'load_lora_adapter'],
];
/** The status of another caller's answer. */
const completed = async (server: SamplerTestServer): Promise<number> => {
  const body = JSON.stringify({ model: 'base', prompt: [1] });
  const { status } = await fetch(`${server.address}/v1/completions`, { method: 'POST', body });
  return status;
};
const routeOf = { vllm: 'v1/completions', sglang: 'generate' } as const;

test(
  'vLLM: a push that lasts longer than half of the patience of who waits is made once',
  () =>
    inScratch(async (dir) => {
      await using server = await SamplerTestServer.start('vllm');
      const uri = uriOf([server], await checkpoint(dir, 'whole', 2), 2, 6);
      server.before = async (route) => {
        if (route === 'collective_rpc') await sleep(4500);
      };
      const first = sampledBy(uri, 2);
      await expect.poll(() => server.count('collective_rpc'), { timeout: 20_000 }).toBe(1);
      // As of another process: by another name, the server has another queue of pushes.
      const elsewhere = new SamplerServer(server.address.replace('127.0.0.1', 'localhost'), undefined, {});
      const found = await readCheckpoint(parseSamplerUri(uri));
      await holdVersion(vllmWeights, elsewhere, found, patienceOf(6), signal);
      await first;
      expect(server.count('collective_rpc')).toBe(1);
      expect(server.label).toBe(found.label);
    }),
  30_000,
);

test('vLLM: a push that fails leaves its server answering, with the weights of its start and under no version', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    await sampledBy(uriOf([server], await checkpoint(dir, 'whole', 1), 1), 1);
    const folder = await checkpoint(dir, 'whole', 2);
    const gone = `${uriOf([server], folder, 2, 5)}`.replace('&patience', '&at=/nowhere&patience');
    await expect(ask(gone)).rejects.toThrow(/ENOENT|nowhere/);
    expect([server.isPaused, server.label, server.weights]).toEqual([false, 'unknown', STARTED_WITH]);
    expect(await completed(server)).toBe(200);
    const adapter = await checkpoint(path.join(dir, 'adapter'), 'adapter', 3);
    await expect(ask(uriOf([server], adapter, 3))).rejects.toThrow('is of the base model');
    await sampledBy(uriOf([server], folder, 2), 2);
  }));

test('vLLM: a server that gets no weights back stays paused, and is named', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const uri = uriOf([server], await checkpoint(dir, 'whole', 2), 2, 5);
    server.isSpoilt = true;
    await expect(ask(uri)).rejects.toThrow(/exceeds dimension size.*http.* stays paused.*Start it again/);
    expect([server.isPaused, server.label, await completed(server)]).toEqual([true, 'unknown', 503]);
    server.restart();
    await sampledBy(uri, 2);
  }));

test('vLLM: an adapter whose folder the server cannot read is named as such', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const uri = uriOf([server], await checkpoint(dir, 'adapter', 2), 2, 5);
    await expect(ask(uri.replace('&patience', '&at=/nowhere&patience'))).rejects.toThrow(/No adapter found.*at=/);
  }));

test('vLLM: a server that closes each kept connection is pushed to, and is given its weights back', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    server.closesKept = true;
    const uri = uriOf([server], await checkpoint(dir, 'whole', 2), 2, 5);
    await expect(ask(uri.replace('&patience', '&at=/nowhere&patience'))).rejects.toThrow(/nowhere/);
    expect([server.isPaused, server.label, server.weights]).toEqual([false, 'unknown', STARTED_WITH]);
    await sampledBy(uri, 2);
  }));

test('weights in parts are not pushed before each part is there', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const folder = await checkpoint(dir, 'whole', 2);
    const index = { weight_map: { a: 'model.safetensors', b: 'model-2.safetensors' } };
    const text = JSON.stringify(index);
    await writeFile(path.join(folder, 'model.safetensors.index.json'), text.slice(0, 20));
    const uri = uriOf([server], folder, 2);
    await expect(ask(uri)).rejects.toThrow(/CheckpointMissing: .* is no index of weights/);
    await writeFile(path.join(folder, 'model.safetensors.index.json'), text);
    await expect(ask(uri)).rejects.toThrow(/CheckpointMissing: .* lacks model-2.safetensors, which model/);
    expect(server.asked).toEqual([]);
    await writeFile(path.join(folder, 'model-2.safetensors'), 'the rest');
    await sampledBy(uri, 2);
  }));

test.each(cases)('%s, %s weights: files that change after their digest are not sampled', (kind, form, load) =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start(kind);
    const folder = await checkpoint(dir, form, 2);
    const file = path.join(folder, form === 'whole' ? 'model.safetensors' : 'adapter_model.safetensors');
    server.before = async (route) => {
      if (route === load) await writeFile(file, 'the weights of another step');
    };
    await expect(ask(uriOf([server], folder, 2))).rejects.toThrow(
      /CheckpointMissing: the files of .* changed while 2-/,
    );
    expect(server.count(routeOf[kind])).toBe(0);
    expect([server.isPaused, [...server.adapters.keys()]]).toEqual([false, []]);
    if (form === 'whole') expect(server.label).toBe('unknown');
  }),
);

test.each<[Form, Record<string, unknown>, RegExp]>([
  ['whole', { weight_version: undefined }, /weight_version/],
  ['whole', { weight_versions: undefined }, /weight_versions/],
  ['whole', { weight_versions: [] }, /weight_versions/],
  ['adapter', { weight_version: undefined }, /weight_version/],
  ['adapter', { weight_versions: undefined }, /weight_versions/],
])('SGLang, %s weights: an answer with %o is not used', (form, meta, what) =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('sglang');
    const uri = uriOf([server], await checkpoint(dir, form, 2), 2);
    server.meta = meta;
    await expect(ask(uri)).rejects.toThrow(what);
    server.meta = {};
    await sampledBy(uri, 2);
  }),
);

test('SGLang: an adapter that was sampled on pushed weights is asked again', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('sglang');
    const uri = uriOf([server], await checkpoint(dir, 'adapter', 2), 2);
    server.spans = [
      ['1-0123456789abcdef', 0, 2],
      ['default', 2, 5],
    ];
    await sampledBy(uri, 2);
    expect(server.count('generate')).toBe(2);
  }));

test.each(['vllm', 'sglang'] as const)('%s: a model that the server does not know is refused at once', (kind) =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start(kind);
    const uri = uriOf([server], await checkpoint(dir, 'whole', 2), 2, 1200);
    server.refused = 404;
    await expect(ask(uri)).rejects.toThrow(/does not exist/);
    expect(server.count(routeOf[kind])).toBe(2);
  }),
);
