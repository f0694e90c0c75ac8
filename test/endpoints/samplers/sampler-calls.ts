/** What the tests of samplers share: checkpoints as files, the URIs of their policies, and calls to them. */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { sglangBackend, vllmBackend } from '../../../endpoints/samplers/backend.ts';
import { BackendCalls } from '../../../trainer/backends/backend-calls.ts';
import type { BackendDefinition } from '../../../trainer/backends/definition.ts';
import { qwen3Dir } from '../../trainer/tiny-policy.ts';
import { type SamplerTestServer, tokensOf } from './sampler-test-server.ts';

export const signal = new AbortController().signal;
export const calls = {
  vllm: new BackendCalls(vllmBackend as unknown as BackendDefinition),
  sglang: new BackendCalls(sglangBackend as unknown as BackendDefinition),
};
export type Form = 'whole' | 'adapter';
export type Kind = keyof typeof calls;

const weightsOf = (version: number): string => `weights of version ${version}`;

export async function checkpoint(
  dir: string,
  form: Form,
  version: number,
  weights = weightsOf(version),
): Promise<string> {
  const folder = path.join(dir, `checkpoint-${version}`);
  await mkdir(folder, { recursive: true });
  const [config, file] =
    form === 'whole' ? ['config.json', 'model.safetensors'] : ['adapter_config.json', 'adapter_model.safetensors'];
  await writeFile(path.join(folder, config), '{}');
  await writeFile(path.join(folder, file), weights);
  return folder;
}

export const uriOf = (
  servers: readonly SamplerTestServer[],
  folder: string,
  version: number,
  patience = 60,
): string => {
  const [first, ...others] = servers.map(({ address }) => address);
  const also = others.map((one) => `&also=${one}`).join('');
  const { kind } = servers[0]!;
  return `${kind}:${first}?model=base&tokenizer=${qwen3Dir}&version=${version}&patience=${patience}${also}#${folder}`;
};

export const ask = (uri: string, prompt: readonly number[] = [5, 6, 7], rollout = 'r', own = signal) =>
  calls[uri.split(':')[0] as Kind].sample(
    {
      uri,
      rollout,
      tokens: prompt,
      sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 8 },
      stopTokenIds: [2],
      noiseKey: 'noise',
    },
    512,
    own,
  );

export const sampledBy = async (uri: string, version: number, prompt = [5, 6, 7], rollout = 'r') => {
  const { tokens, finish } = await ask(uri, prompt, rollout);
  expect(tokens).toEqual(tokensOf(weightsOf(version), prompt));
  expect(finish).toBe('stop');
};
