/**
 * Hunts kinds of engines that are the same although their products differ, or differ although nothing does. That other
 * instructions give the decoder's very bits is shown where the processor has AVX-512: the same sources are built for it.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { dependencyDirectory, packageRoot } from '#setup/paths.mjs';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import { engineKinds, kindOf, processorOf } from '../../trainer/engine-kind.ts';
import { loadNativeBinding, type NativeBinding } from '../../trainer/sampler/pass/native/native-binding.ts';
import { NativeDecoder } from '../../trainer/sampler/pass/native/native-decoder.ts';
import { NativeModel } from '../../trainer/sampler/pass/native/native-model.ts';
import { randomIds, randomWeights, smallShape } from './sampler/random-policy.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-kind-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const CPUINFO = `processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 207
flags		: fpu sse2 avx2 fma avx512f amx_tile hypervisor

processor	: 1
vendor_id	: Other
`;

describe('a kind', () => {
  it('is the same for the same dependencies in any order, and another one for each that differs', () => {
    const depends = { isa: 'avx2 fma', threads: '2' };
    const { id } = kindOf('tensorflow', depends);
    expect(id).toMatch(/^tensorflow-[a-z0-9]+-[0-9a-f]{12}$/);
    expect(kindOf('tensorflow', { threads: '2', isa: 'avx2 fma' }).id).toBe(id);
    for (const other of [{ ...depends, threads: '1' }, { ...depends, isa: 'avx2 avx512f fma' }, { isa: 'avx2 fma' }])
      expect(kindOf('tensorflow', other).id).not.toBe(id);
  });

  it('of TensorFlow has the first processor, the instructions that choose its kernels, and the caches', () => {
    expect(processorOf(CPUINFO, 'L1 48K, L2 2048K')).toEqual({
      processor: 'GenuineIntel 6 207',
      isa: 'amx_tile avx2 avx512f fma',
      caches: 'L1 48K, L2 2048K',
    });
    expect(processorOf('', '')).toMatchObject({ isa: '', caches: '' });
  });

  it('of sampling depends on the build alone, and that of training on processor and threads', () => {
    const { sampling, training } = engineKinds('native');
    expect(Object.keys(sampling.depends).toSorted()).toEqual(['build', 'libc', 'node']);
    expect(Object.keys(training.depends)).toEqual(expect.arrayContaining(['isa', 'threads', 'tensorflow', 'caches']));
    expect(engineKinds('graph').sampling.depends).toEqual(training.depends);
  });

  it('is told by the engine, the same each time', async () => {
    const engine = await createEmbeddedEngine();
    expect(await engine.describe()).toEqual(engineKinds('native'));
    await engine.close();
  });
});

const hasAvx512 = /\bavx512f\b.*\bavx512vl\b/.test(readFileSync('/proc/cpuinfo', 'utf8'));

function builtFor(march: string): NativeBinding {
  const out = join(dir, `${march}.node`);
  const headers = join(dependencyDirectory('node-api-headers', packageRoot) ?? '', 'include');
  const flags = ['-O3', '-std=c++17', '-ffp-contract=fast', '-fno-math-errno', `-march=${march}`, '-DNAPI_VERSION=8'];
  const source = join(packageRoot, 'trainer', 'native', 'binding.cc');
  execFileSync('c++', ['-shared', '-fPIC', ...flags, `-I${headers}`, source, '-o', out, '-pthread']);
  return createRequire(import.meta.url)(out) as NativeBinding;
}

/** Logits of every token, and a draw. */
async function productsOf(binding: NativeBinding, config: typeof smallShape): Promise<unknown> {
  const model = await NativeModel.load(binding, config, randomWeights(config, 5), 128);
  const decoder = new NativeDecoder(binding, config, 128, 8);
  const tokens = randomIds(5, 60, config.vocabSize);
  const blocks = [7, 6, 5, 4];
  const row = { tokens, from: 0, count: 60, blocks };
  const draw = { temperature: 0.8, uniform: 0.37, limit: config.vocabSize };
  const [every] = decoder.forward(model, [{ ...row, want: 'every' }]);
  const logits = every && 'logits' in every ? every.logits.map((one) => [...one]) : [];
  const [drawn] = decoder.forward(model, [{ ...row, want: draw }]);
  decoder.dispose();
  model.dispose();
  return { logits, drawn };
}

it.runIf(process.arch === 'x64' && hasAvx512)(
  'the decoder adds in one order whatever instructions it is built for',
  async () => {
    const wide = builtFor('x86-64-v4');
    const odd = {
      ...smallShape,
      hiddenSize: 72,
      heads: 3,
      kvHeads: 3,
      headDim: 10,
      intermediateSize: 101,
      vocabSize: 333,
    };
    for (const config of [smallShape, odd, { ...smallShape, hiddenSize: 256, intermediateSize: 1024, layers: 2 }]) {
      const expected = await productsOf(loadNativeBinding(), config);
      expect(await productsOf(wide, config)).toEqual(expected);
    }
  },
);
