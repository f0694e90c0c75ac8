/**
 * Hunts an answer that other weights sampled than its policy's: a push that was killed, a server that was restarted, is
 * behind, ahead or lost. Not asserted: real vLLM and SGLang, which the stand-in only speaks like.
 */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { vllmBackend } from '../../../endpoints/samplers/backend.ts';
import { resolvePolicy } from '../../../activities/orchestrator/sweep/resolve-policy.ts';
import type { Store } from '../../../store/store.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';
import { BackendFailed } from '../../../trainer/backends/backend-calls.ts';
import { backendOfUri } from '../../../trainer/backends/registry.ts';
import { inScratch } from '../../trainer/tiny-policy.ts';
import { ask, calls, checkpoint, type Form, type Kind, sampledBy, signal, uriOf } from './sampler-calls.ts';
import { SamplerTestServer } from './sampler-test-server.ts';

const cases: ReadonlyArray<readonly [Kind, Form]> = [
  ['vllm', 'whole'],
  ['vllm', 'adapter'],
  ['sglang', 'whole'],
  ['sglang', 'adapter'],
];

test.each(['vllm', 'sglang'] as const)('%s: an adapter is not sampled on whole weights that were pushed', (kind) =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start(kind);
    const adapter = await checkpoint(path.join(dir, 'adapter'), 'adapter', 1);
    await sampledBy(uriOf([server], adapter, 1), 1);
    await sampledBy(uriOf([server], await checkpoint(dir, 'whole', 2), 2), 2);
    await expect(ask(uriOf([server], adapter, 1))).rejects.toThrow('is of the base model');
  }),
);

describe.each(cases)('%s, %s weights', (kind, form) => {
  test('each version is pushed once and samples its own answers', () =>
    inScratch(async (dir) => {
      await using server = await SamplerTestServer.start(kind);
      for (const version of [1, 2]) {
        const uri = uriOf([server], await checkpoint(dir, form, version), version);
        await Promise.all([1, 2, 3, 4].map((id) => sampledBy(uri, version, [id])));
      }
      const pushed = {
        vllm: { whole: 'collective_rpc', adapter: 'v1/load_lora_adapter' },
        sglang: { whole: 'update_weights_from_disk', adapter: 'load_lora_adapter' },
      };
      expect(server.count(pushed[kind][form])).toBe(2);
      if (form === 'adapter') await sampledBy(uriOf([server], path.join(dir, 'checkpoint-1'), 1), 1);
    }));

  test('a server that was restarted with its old weights is noticed, and pushed to again', () =>
    inScratch(async (dir) => {
      await using server = await SamplerTestServer.start(kind);
      const uri = uriOf([server], await checkpoint(dir, form, 3), 3);
      await sampledBy(uri, 3);
      server.restart();
      await sampledBy(uri, 3);
      await sampledBy(uri, 3, [9]);
    }));

  test(
    'a push that is cut off at any request is repeated',
    () =>
      inScratch(async (dir) => {
        const folder = await checkpoint(dir, form, 4);
        for (let cut = 0; ; cut += 1) {
          await using server = await SamplerTestServer.start(kind);
          const uri = uriOf([server], folder, 4);
          let count = 0;
          const dead = new AbortController();
          server.before = () => {
            if (count++ !== cut) return true;
            // The request arrived, and its sender is gone.
            dead.abort(new Error('killed'));
            return true;
          };
          const first = await ask(uri, [5], 'r', dead.signal).catch((error: unknown) => error);
          if (!dead.signal.aborted) {
            expect(cut).toBeGreaterThan(1);
            expect(first).toMatchObject({ finish: 'stop' });
            return;
          }
          await sampledBy(uri, 4, [cut]);
          expect(server.isPaused).toBe(false);
        }
      }),
    30_000,
  );

  test(
    'a push whose process is gone at any request, without a word, is repeated',
    () =>
      inScratch(async (dir) => {
        const folder = await checkpoint(dir, form, 4);
        for (let cut = 1; ; cut += 1) {
          await using server = await SamplerTestServer.start(kind);
          const uri = uriOf([server], folder, 4, 2);
          let count = 0;
          server.before = () => ++count <= cut;
          const first = await ask(uri, [5]).catch((error: unknown) => error);
          if (count <= cut) {
            expect(cut).toBeGreaterThan(2);
            expect(first).toMatchObject({ finish: 'stop' });
            return;
          }
          expect(first).toBeInstanceOf(BackendFailed);
          server.before = () => undefined;
          await sampledBy(uri, 4, [cut]);
          expect(server.isPaused).toBe(false);
        }
      }),
    60_000,
  );

  test('servers with other versions are each brought to the asked one; a lost one is passed over', () =>
    inScratch(async (dir) => {
      await using one = await SamplerTestServer.start(kind);
      await using two = await SamplerTestServer.start(kind);
      await sampledBy(uriOf([one], await checkpoint(dir, form, 1), 1), 1);
      await sampledBy(uriOf([two], await checkpoint(dir, form, 2), 2), 2);
      const uri = uriOf([one, two], await checkpoint(dir, form, 5), 5);
      for (const id of [1, 2, 3, 4, 5, 6, 7, 8]) await sampledBy(uri, 5, [id], `rollout ${id}`);
      const route = kind === 'vllm' ? 'v1/completions' : 'generate';
      expect(Math.min(one.count(route), two.count(route))).toBeGreaterThan(1);
      await one.stop();
      for (const id of [1, 2, 3, 4, 5, 6, 7, 8]) await sampledBy(uri, 5, [id], `rollout ${id}`);
    }));

  test('servers that are all away are waited for, and then named', () =>
    inScratch(async (dir) => {
      await using one = await SamplerTestServer.start(kind);
      await using two = await SamplerTestServer.start(kind);
      const folder = await checkpoint(dir, form, 5);
      await sampledBy(uriOf([one, two], folder, 5), 5);
      await Promise.all([one.stop(), two.stop()]);
      const impatient = uriOf([one, two], folder, 5, 1);
      await expect(ask(impatient)).rejects.toThrow(
        /no server .* within 1 s \(.*ECONNREFUSED.*; .*\): start one of them/,
      );
      const waiting = sampledBy(uriOf([one, two], folder, 5), 5);
      await sleep(500);
      // One of them starts again, with the weights of its start.
      two.restart();
      await two.listen();
      await waiting;
      await one.listen();
    }));

  test('a server that never says that it has the version is waited for, and then named', () =>
    inScratch(async (dir) => {
      await using server = await SamplerTestServer.start(kind);
      server.before = () => {
        server.label = 'default';
        server.adapters.clear();
      };
      const failed = ask(uriOf([server], await checkpoint(dir, form, 2), 2, 1));
      await expect(failed).rejects.toThrow(/SamplerBehind: .* did not have 2-[0-9a-f]{16} within 1 s .*check whether/);
      expect(server.count(kind === 'vllm' ? 'v1/completions' : 'generate')).toBe(0);
    }));
});

describe.each(['vllm', 'sglang'] as const)('%s, whole weights that others push too', (kind) => {
  test('an answer that two versions sampled is dropped', () =>
    inScratch(async (dir) => {
      await using server = await SamplerTestServer.start(kind);
      const uri = uriOf([server], await checkpoint(dir, 'whole', 2), 2);
      await sampledBy(uri, 2);
      const { label } = server;
      server.spans = [
        ['1-0123456789abcdef', 0, 2],
        [label, 2, 5],
      ];
      await sampledBy(uri, 2);
      expect(server.count(kind === 'vllm' ? 'v1/completions' : 'generate')).toBe(3);
    }));

  test('a server with a later version, or with others of this number, is never set back', () =>
    inScratch(async (dir) => {
      await using server = await SamplerTestServer.start(kind);
      const old = uriOf([server], await checkpoint(dir, 'whole', 2), 2);
      await sampledBy(old, 2);
      const later = uriOf([server], await checkpoint(dir, 'whole', 3), 3);
      await sampledBy(later, 3);
      await expect(ask(old)).rejects.toThrow(/SamplerAhead: .*a later version/);
      const folder = await checkpoint(path.join(dir, 'other'), 'whole', 3, 'others');
      await expect(ask(uriOf([server], folder, 3))).rejects.toThrow(/SamplerAhead: .*other weights under this version/);
      await sampledBy(later, 3);
    }));
});

test('vLLM: a push of somebody else is waited for, and taken over if its process is gone', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const folder = await checkpoint(dir, 'whole', 2);
    server.label = 'loading 1-0123456789abcdef 00';
    server.isPaused = true;
    let looks = 0;
    server.before = (route) => {
      if (route === 'weight_info' && ++looks === 3) server.label = 'default';
    };
    await sampledBy(uriOf([server], folder, 2), 2);
    expect(looks).toBeGreaterThanOrEqual(3);
    server.restart();
    server.label = 'loading 2-0123456789abcdef 00'.replace('0123456789abcdef', 'fedcba9876543210');
    await expect(ask(uriOf([server], folder, 2, 2))).rejects.toThrow('SamplerAhead');
    server.label = 'loading 1-0123456789abcdef 01';
    server.isPaused = true;
    await sampledBy(uriOf([server], folder, 2, 4), 2);
  }));

test('vLLM: the push that another one overtakes leaves no label of its own', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const folder = await checkpoint(dir, 'whole', 2);
    let isFirst = true;
    server.before = (route) => {
      if (route !== 'reset_prefix_cache' || !isFirst) return;
      isFirst = false;
      server.weights = 'of the other push';
      server.label = 'loading 1-0123456789abcdef 02';
    };
    await sampledBy(uriOf([server], folder, 2), 2);
    expect(server.count('collective_rpc')).toBe(2);
  }));

test('a run, a temperature, a folder and a URI that cannot be used are refused by name', () =>
  inScratch(async (dir) => {
    await using server = await SamplerTestServer.start('vllm');
    const folder = await checkpoint(dir, 'adapter', 1);
    const uri = uriOf([server], folder, 1);
    expect(backendOfUri(uri)?.name).toBe('vllm');
    expect(vllmBackend.refuse?.({} as RunConfig)).toEqual(['policy.backend', 'vllm', expect.stringContaining('evals')]);
    const first = await calls.vllm.describe(uri, signal);
    const resolved = await resolvePolicy({ name: 'p', policy: uri }, dir, {} as Store);
    expect(resolved).toMatchObject({ ref: { uri, digest: first.digest }, fingerprint: first.digest });
    await writeFile(path.join(folder, 'adapter_model.safetensors'), 'changed');
    await expect(ask(uri)).rejects.toThrow(/CheckpointMissing: .* has other files than before/);
    expect((await calls.vllm.describe(uri, signal)).digest).not.toBe(first.digest);
    await expect(calls.vllm.describe(uriOf([server], path.join(dir, 'none'), 1), signal)).rejects.toThrow(
      'CheckpointMissing',
    );
    for (const [from, to] of [
      ['&version=1', ''],
      ['model=base', 'modle=base'],
      [folder, 'relative'],
      ['http:', 'ftp:'],
      ['&patience=60', '&patience=0'],
      ['&patience', `&also=${server.address}&patience`],
    ] as const)
      await expect(calls.vllm.describe(uri.replace(from, to), signal)).rejects.toThrow('UserInputError');
    expect(server.asked).toEqual([]);
  }));
