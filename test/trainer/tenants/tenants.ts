/** Bases, adapters and passes of the tests of tenants. */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { AdamParameters, AdapterSettings, TinkerDatum, TinkerPass } from '../../../protocol/tinker.ts';
import { type ModelConfig, modelConfigJson } from '../../../trainer/model/config.ts';
import { initializeWeights } from '../../../trainer/model/initialize.ts';
import { saveWeights } from '../../../trainer/model/weights.ts';
import { loadTenantBase } from '../../../trainer/tenants/tenant-base.ts';
import type { PassMemory } from '../../../trainer/tenants/adapter-pass.ts';
import { TenantAdapters } from '../../../trainer/tenants/tenant-adapters.ts';
import { inScratch, smallConfig, someTokens } from '../tiny-policy.ts';

export const untied: ModelConfig = { ...smallConfig, tiedEmbeddings: false };

export const settings: AdapterSettings = { rank: 4, alpha: 8, seed: 3, attention: true, mlp: true, unembed: true };

export const adam: AdamParameters = {
  learningRate: 1e-2,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-12,
  weightDecay: 0,
  gradClipNorm: 0,
};

/** Writes a random model with norms that are not 1, so that a norm that is forgotten shows. */
export async function writeBase(dir: string, config: ModelConfig): Promise<string> {
  await mkdir(dir, { recursive: true });
  await writeFile(path.join(dir, 'config.json'), JSON.stringify(modelConfigJson(config)));
  const weights = initializeWeights(config, 'base');
  for (const [name, { shape, data }] of weights) {
    if (shape.length === 1 && name.includes('norm'))
      for (const i of data.keys()) data[i] = 1 + 0.3 * Math.sin(i + name.length);
  }
  await saveWeights(dir, weights);
  return dir;
}

/** Adapters of a random base, and a folder. */
export const withTenants = <T>(
  config: ModelConfig,
  body: (tenants: TenantAdapters, dir: string) => Promise<T>,
  memory?: PassMemory,
): Promise<T> =>
  inScratch(async (dir) => {
    const base = await loadTenantBase(await writeBase(path.join(dir, 'base'), config));
    const tenants = new TenantAdapters(base, memory);
    try {
      return await body(tenants, dir);
    } finally {
      tenants.dispose();
      base.dispose();
    }
  });

/** Targets are not the next tokens. */
export function datum(length: number, seed: number, more: Partial<TinkerDatum> = {}): TinkerDatum {
  return {
    tokens: Int32Array.from(someTokens(length, seed)),
    targets: Int32Array.from(someTokens(length, seed + 1000)),
    ...more,
  };
}

/** Weights of both signs, with zeros. */
export const unevenWeights = (length: number, seed: number): Float32Array =>
  Float32Array.from({ length }, (_, i) => (i % 5 === 0 ? 0 : Math.cos(i + seed)));

export const crossEntropy = (data: readonly TinkerDatum[], backward = true): TinkerPass => ({
  data,
  loss: 'cross_entropy',
  config: {},
  backward,
});
