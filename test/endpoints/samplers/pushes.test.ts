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
import { SamplerTestServer } from './sampler-test-server.ts';

const cases: ReadonlyArray<readonly [Kind, Form, load: string]> = [
  ['vllm', 'whole', 'collective_rpc'],
  ['vllm', 'adapter', 'v1/load_lora_adapter'],
  ['sglang', 'whole', 'update_weights_from_disk'],
  ['sglang', 'adapter', 'load_lora_adapter'],
];
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

test('vLLM: a push that fails leaves its server answering, under no version', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const folder = await checkpoint(dir, 'whole', 2);
    const gone = `${uriOf([server], folder, 2, 5)}`.replace('&patience', '&at=/nowhere&patience');
    await expect(ask(gone)).rejects.toThrow(/ENOENT|nowhere/);
    expect([server.isPaused, server.label]).toEqual([false, 'unknown']);
    await sampledBy(uriOf([server], folder, 2), 2);
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
