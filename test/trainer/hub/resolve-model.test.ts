/** Models by hub id: downloaded once, continued after a break, found without a network, refused with the remedy. */

import { fileUri } from '../../../protocol/policy-uri.ts';
import { mkdir, readFile, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { hubCache } from '../../../trainer/hub/hub-cache.ts';
import { modelUri, parseHubId } from '../../../trainer/hub/hub-id.ts';
import { ModelUnavailable, resolveModel } from '../../../trainer/hub/resolve-model.ts';
import { gathered, loadWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';
import { type FakeHub, startFakeHub } from './fake-hub.ts';

const repo = 'someone/tiny-qwen3';
const names = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'];
const files = new Map(
  await Promise.all(names.map(async (name) => [name, await readFile(path.join(qwen3Dir, name))] as const)),
);
// The hub's client keeps files below 1 MB in memory; only larger weights are requested by ranges.
const padded = new Map([
  ...files,
  ['extra.safetensors', Buffer.alloc(3_000_000, 7)],
  ['README.md', Buffer.from('#')],
  ['onnx/model.safetensors', Buffer.from('x')],
]);

let hub: FakeHub;
beforeEach(async () => {
  hub = await startFakeHub(repo, padded);
});
afterEach(() => hub.close());

const inCache = (body: (env: Record<string, string>, home: string) => Promise<void>): Promise<void> =>
  inScratch((home) => body({ HF_HOME: home, HF_ENDPOINT: hub.endpoint }, home));

/** An address on which nothing listens. */
async function closedNetwork(): Promise<string> {
  const gone = await startFakeHub(repo, files);
  await gone.close();
  return gone.endpoint;
}

describe('a hub id', () => {
  test('is downloaded into the standard cache, and loads', () =>
    inCache(async (env, home) => {
      const progress: number[] = [];
      const dir = await resolveModel(`hub:${repo}`, {
        env,
        onProgress: ({ bytes, totalBytes }) => progress.push(bytes / totalBytes),
      });
      const folder = path.join(home, 'hub', 'models--someone--tiny-qwen3');
      expect(dir).toBe(path.join(folder, 'snapshots', hub.commit));
      expect(await readFile(path.join(folder, 'refs', 'main'), 'utf8')).toBe(hub.commit);
      expect((await readdir(dir)).sort()).toEqual([...names, 'extra.safetensors'].sort());
      expect(await readlink(path.join(dir, 'config.json'))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/);
      expect((await readdir(path.join(folder, 'blobs'))).some((name) => name.endsWith('.incomplete'))).toBe(false);
      expect(weightsDigest(await gathered((await loadPolicy(dir)).weights))).toBe(
        weightsDigest(await loadWeights(qwen3Dir)),
      );
      expect(progress.at(-1)).toBe(1);
      expect(progress.every((x, i) => i === 0 || x >= (progress[i - 1] ?? 0))).toBe(true);
    }));

  test('is downloaded once: the next call requests the commit and uses the cache', () =>
    inCache(async (env) => {
      const first = await resolveModel(`hub:${repo}`, { env });
      hub.asked.length = 0;
      expect(await resolveModel(`hub:${repo}`, { env })).toBe(first);
      expect(hub.asked.filter((line) => line.includes('/resolve/'))).toEqual([]);
      hub.asked.length = 0;
      expect(await resolveModel(`hub:${repo}@${hub.commit}`, { env })).toBe(first);
      expect(hub.asked).toEqual([]);
    }));

  test('a branch that moved brings its new files, and the old snapshot stays', () =>
    inCache(async (env) => {
      const first = await resolveModel(`hub:${repo}`, { env });
      hub.commit = 'f'.repeat(40);
      hub.files = new Map([...padded, ['generation_config.json', Buffer.from('{}')]]);
      hub.asked.length = 0;
      const second = await resolveModel(`hub:${repo}`, { env });
      expect(second).not.toBe(first);
      expect((await readdir(first)).length + 1).toBe((await readdir(second)).length);
      expect(new Set(hub.asked.filter((line) => line.includes('/resolve/')).map((line) => line.split(' ')[1]))).toEqual(
        new Set([`/${repo}/resolve/${hub.commit}/generation_config.json`]),
      );
    }));

  test('an interrupted download continues where it ended, also one of an earlier process', () =>
    inCache(async (env, home) => {
      hub.breakOff = 2;
      const dir = await resolveModel(`hub:${repo}`, { env });
      expect((await readFile(path.join(dir, 'extra.safetensors'))).equals(padded.get('extra.safetensors')!)).toBe(true);
      const begins = hub.asked
        .filter((line) => line.includes('extra.safetensors'))
        .flatMap((line) => /bytes=(\d+)-/.exec(line)?.[1] ?? []);
      expect(begins.some((begin) => Number(begin) > 0)).toBe(true);
      const blobs = path.join(home, 'hub', 'models--someone--tiny-qwen3', 'blobs');
      const blob = path.basename(await readlink(path.join(dir, 'extra.safetensors')));
      await rm(path.join(blobs, blob));
      await rm(path.join(dir, 'extra.safetensors'));
      await writeFile(path.join(blobs, `${blob}.incomplete`), padded.get('extra.safetensors')!.subarray(0, 1_234_567));
      hub.asked.length = 0;
      await resolveModel(`hub:${repo}`, { env });
      expect(hub.asked.some((line) => line.includes('extra.safetensors bytes=1234567-'))).toBe(true);
    }));

  test('a file that differs from what the hub announced is removed and reported', () =>
    inCache(async (env, home) => {
      const blobs = path.join(home, 'hub', 'models--someone--tiny-qwen3', 'blobs');
      await mkdir(blobs, { recursive: true });
      await resolveModel(`hub:${repo}`, { env });
      const large = (await readdir(blobs)).find((name) => name.length === 64)!;
      await rm(path.join(blobs, large));
      await writeFile(path.join(blobs, `${large}.incomplete`), Buffer.alloc(10, 1));
      await rm(path.join(home, 'hub', 'models--someone--tiny-qwen3', 'snapshots'), { recursive: true });
      await expect(resolveModel(`hub:${repo}`, { env })).rejects.toThrow(/differs from what the hub announced/);
      expect((await readdir(blobs)).some((name) => name.endsWith('.incomplete'))).toBe(false);
    }));

  test('an adapter whose base is a folder of this machine is refused, also from the cache', () =>
    inCache(async (env) => {
      const adapter = (base: string) =>
        new Map([
          ...files,
          ['adapter_config.json', Buffer.from(JSON.stringify({ base_model_name_or_path: base }))],
          ['adapter_model.safetensors', Buffer.from('x')],
        ]);
      for (const [i, base] of [qwen3Dir, '../../elsewhere', '.', 'a/../../b'].entries()) {
        hub.files = adapter(base);
        hub.commit = String(i).repeat(40);
        await expect(resolveModel(`hub:${repo}`, { env })).rejects.toThrow(
          /is in the cache .*names a folder as its base/,
        );
        await expect(resolveModel(`hub:${repo}@${hub.commit}`, { env })).rejects.toThrow(ModelUnavailable);
      }
      hub.files = adapter('someone/base');
      hub.commit = 'a'.repeat(40);
      expect(await resolveModel(`hub:${repo}`, { env })).toContain(hub.commit);
    }));

  test('a token is sent if there is one', () =>
    inCache(async (env) => {
      await resolveModel(`hub:${repo}`, { env: { ...env, HF_TOKEN: 'hf_secret' } });
      expect(new Set(hub.tokens)).toEqual(new Set(['Bearer hf_secret']));
    }));

  test("a login's token is found in its file, and a token in the environment takes precedence", () =>
    inCache(async (env, home) => {
      const shown = async (more: Record<string, string> = {}) => {
        hub.tokens.length = 0;
        await resolveModel(`hub:${repo}`, { env: { ...env, ...more } });
        return [...new Set(hub.tokens)];
      };
      expect(await shown()).toEqual([undefined]);
      await writeFile(path.join(home, 'token'), 'hf_file\n');
      expect(await shown()).toEqual(['Bearer hf_file']);
      expect(await shown({ HF_TOKEN: '' })).toEqual(['Bearer hf_file']);
      expect(await shown({ HF_TOKEN: 'hf_said' })).toEqual(['Bearer hf_said']);
      await writeFile(path.join(home, 'other'), 'hf_other');
      expect(await shown({ HF_TOKEN_PATH: path.join(home, 'other') })).toEqual(['Bearer hf_other']);
      expect(await shown({ HF_TOKEN_PATH: path.join(home, 'nowhere') })).toEqual([undefined]);
    }));
});

describe('without a network', () => {
  test('the cache is used; the error for a missing model names it, the cache and the remedy', () =>
    inCache(async (env, home) => {
      const dir = await resolveModel(`hub:${repo}`, { env });
      const closed = { ...env, HF_ENDPOINT: await closedNetwork() };
      expect(await resolveModel(`hub:${repo}`, { env: closed })).toBe(dir);
      const missing = resolveModel('hub:someone/else@v2', { env: closed });
      await expect(missing).rejects.toThrow(ModelUnavailable);
      await expect(missing).rejects.toThrow(
        /someone\/else \(revision v2\).*not in the cache .*cannot be reached.*HF_HOME.*give the path of its directory/s,
      );
      await expect(missing).rejects.toThrow(path.join(home, 'hub'));
    }));

  test('with HF_HUB_OFFLINE no request is sent', () =>
    inCache(async (env) => {
      await expect(resolveModel(`hub:${repo}`, { env: { ...env, HF_HUB_OFFLINE: '1' } })).rejects.toThrow(
        /HF_HUB_OFFLINE/,
      );
      const dir = await resolveModel(`hub:${repo}`, { env });
      hub.asked.length = 0;
      expect(await resolveModel(`hub:${repo}`, { env: { ...env, HF_HUB_OFFLINE: '1' } })).toBe(dir);
      expect(hub.asked).toEqual([]);
    }));

  test('a snapshot that lacks a file is not used', () =>
    inCache(async (env) => {
      const dir = await resolveModel(`hub:${repo}`, { env });
      await rm(path.join(dir, 'model.safetensors'));
      await expect(resolveModel(`hub:${repo}`, { env: { ...env, HF_HUB_OFFLINE: '1' } })).rejects.toThrow(
        ModelUnavailable,
      );
    }));
});

test.each([401, 404])('HTTP %i: id, revision and token are named', (status) =>
  inCache(async (env) => {
    hub.refuse = status;
    await expect(resolveModel(`hub:${repo}`, { env })).rejects.toThrow(
      new RegExp(`someone/tiny-qwen3.*HTTP ${status}.*HF_TOKEN`, 's'),
    );
  }),
);

describe('the meaning of a name', () => {
  test('a directory takes precedence; hub: always means the hub', () =>
    inScratch(async (dir) => {
      expect(modelUri(repo, dir)).toBe(`hub:${repo}@main`);
      await mkdir(path.join(dir, repo), { recursive: true });
      expect(modelUri(repo, dir)).toBe(fileUri(path.join(dir, repo)));
      expect(modelUri(`hub:${repo}@v1`, dir)).toBe(`hub:${repo}@v1`);
      for (const text of ['starter', './a/b', '/models/starter', 'a/b/c', '../x/y'])
        expect(modelUri(text, dir)).toBe(fileUri(path.resolve(dir, text)));
      expect(parseHubId('a/..')).toBeUndefined();
    }));

  test('the cache is where huggingface_hub has it', () => {
    expect(hubCache({ HF_HUB_CACHE: '/c', HF_HOME: '/h' })).toBe('/c');
    expect(hubCache({ HF_HOME: '/h' })).toBe('/h/hub');
    expect(hubCache({ XDG_CACHE_HOME: '/x' })).toBe('/x/huggingface/hub');
    expect(hubCache({})).toMatch(/\/\.cache\/huggingface\/hub$/);
  });
});
