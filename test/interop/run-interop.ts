/**
 * Policies and adapters (a critic's among them) there and back through Hugging Face's own packages: the same logits on both sides, for each
 * family, tied and untied, in each type of number. `npm run test:interop`; the packages are fetched once, which are some
 * gigabytes.
 */

import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type PythonPackages, pythonPackagesWithPeft } from '../../benchmarks/engine/python-packages.ts';
import { writeCheckpoint } from '../../trainer/checkpoints/checkpoint.ts';
import { criticCheckpoint, disposeCritic, loadCritic, loadMoments } from '../../trainer/critic/critic.ts';
import { newAdapter } from '../../trainer/lora/new-adapter.ts';
import type { AdapterWeights } from '../../trainer/lora/adapter-layout.ts';
import { type ModelConfig, modelConfigJson } from '../../trainer/model/config.ts';
import { Policy } from '../../trainer/model/policy.ts';
import { writeSafetensors } from '../../trainer/model/safetensors.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { saveWeights, type WeightPieces } from '../../trainer/model/weights.ts';
import { loadPolicy } from '../../trainer/sampler/policy-loader.ts';
import { randomIds, randomWeights, smallShape } from '../trainer/sampler/random-policy.ts';
import { decodeAll, passesOf } from '../trainer/vectors/passes.ts';
import { checkSdks } from './sdk-checks.ts';
import { checkExports } from './exports.ts';

const tolerance = 2e-4;
const tiny: ModelConfig = {
  ...smallShape,
  vocabSize: 256,
  hiddenSize: 64,
  intermediateSize: 96,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  maxPositions: 512,
};
const families: Readonly<Record<string, ModelConfig>> = {
  qwen3: tiny,
  qwen2: { ...tiny, family: 'qwen2' },
  llama: {
    ...tiny,
    family: 'llama',
    normEpsilon: 1e-5,
    ropeScaling: { type: 'llama3', factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 64 },
  },
};
const shapes = Object.entries(families).flatMap(([name, config]) => [
  [`${name}-tied`, config] as const,
  [`${name}-untied`, { ...config, tiedEmbeddings: false }] as const,
]);
/** What Python writes for each shape: types of numbers, all but one of them in shards. */
const types = ['bfloat16', 'float16', 'float32'];
const tokens = randomIds(3, 40, tiny.vocabSize);

interface Case {
  readonly tokens: readonly number[];
  readonly logits: ReadonlyArray<readonly number[]>;
}

async function logitsOf(config: ModelConfig, weights: WeightPieces, of: readonly number[]): Promise<number[][]> {
  const passes = await passesOf(config, weights);
  const rows = decodeAll(passes, of).map((row) => [...row]);
  passes.dispose();
  return rows;
}

const writeJson = (file: string, value: unknown): Promise<void> => writeFile(file, JSON.stringify(value));

async function writeOurs(dir: string, config: ModelConfig): Promise<void> {
  const weights = randomWeights(config, 11);
  const fresh = newAdapter(
    config,
    { rank: 4, alpha: 8, targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] },
    dir,
    1,
  );
  const tensors = new Map(
    [...fresh.tensors].map(([name, { shape, data }], i) => [
      name,
      { shape, data: data.map((x, j) => x + 0.05 * Math.sin(3 * i + j)) },
    ]),
  );
  const adapter: AdapterWeights = { json: fresh.json, tensors };
  const policy = new Policy(config, weights, adapter);
  await mkdir(path.join(dir, 'adapter'), { recursive: true });
  await writeJson(path.join(dir, 'config.json'), modelConfigJson(config));
  await saveWeights(dir, weights);
  await writeJson(path.join(dir, 'case.json'), { tokens, logits: await logitsOf(config, weights, tokens) });
  await writeJson(path.join(dir, 'adapter', 'adapter_config.json'), adapter.json);
  await writeSafetensors(path.join(dir, 'adapter', 'adapter_model.safetensors'), tensors);
  await writeJson(path.join(dir, 'adapter', 'case.json'), {
    tokens,
    logits: await logitsOf(config, policy.merged(), tokens),
  });
  policy.dispose();
  await writeCritic(dir);
}

/** A critic's adapter beside the policy in `dir`, as an update writes it, and the values that it gives before each token but the first. */
async function writeCritic(dir: string): Promise<void> {
  const begin = {
    base: dir,
    seed: 2,
    lora: { rank: 4, alpha: 8, targetModules: ['q_proj' as const, 'v_proj' as const, 'up_proj' as const] },
  };
  const begun = await loadCritic({ beside: dir, begin });
  await loadMoments(begun, { beside: dir, begin });
  const written = criticCheckpoint(begun, 1);
  disposeCritic(begun);
  const tensors = new Map(
    [...written.weights].map(([name, { shape, data }], i) => [
      name,
      { shape, data: data.map((x, j) => x + 0.05 * Math.sin(3 * i + j)) },
    ]),
  );
  const to = path.join(dir, 'critic-adapter');
  await writeCheckpoint(to, { ...written, weights: tensors });
  const critic = await loadCritic({ dir: to });
  const values = critic.model.values(tokenBatch([{ tokens, mask: tokens.map(() => 1) }]));
  disposeCritic(critic);
  await writeJson(path.join(to, 'case.json'), { tokens, values: [...values] });
}

async function checkTheirs(root: string, name: string): Promise<void> {
  const dir = path.join(root, name);
  const { config, weights } = await loadPolicy(dir);
  const wanted = JSON.parse(await readFile(path.join(dir, 'case.json'), 'utf8')) as Case;
  const got = await logitsOf(config, weights, wanted.tokens);
  const farthest = wanted.logits.reduce(
    (most, row, t) => row.reduce((m, x, i) => Math.max(m, Math.abs(x - (got[t]?.[i] ?? NaN))), most),
    0,
  );
  process.stdout.write(`${name}: largest difference ${farthest.toExponential(2)}\n`);
  if (!(farthest <= tolerance)) throw new Error(`${name}: ${farthest} is more than ${tolerance}`);
}

const pythonEnv = ({ path: packages }: PythonPackages): NodeJS.ProcessEnv => ({
  ...process.env,
  PYTHONPATH: packages,
  PYTHONWARNINGS: 'ignore',
  HF_HUB_OFFLINE: '1',
  CUDA_VISIBLE_DEVICES: '',
});

/** What Python said of our policies, and of what it wrote itself. */
function askPython(packages: PythonPackages, dir: string): void {
  const { python } = packages;
  const env = pythonEnv(packages);
  execFileSync(python, [path.join(import.meta.dirname, 'interop.py'), dir, ...types], {
    env,
    stdio: 'inherit',
    timeout: 600_000,
  });
}

const packages = await pythonPackagesWithPeft((line) => process.stdout.write(`${line}\n`));
const root = await mkdtemp(path.join(tmpdir(), 'longhaul-interop-'));
try {
  for (const [name, config] of shapes) await writeOurs(path.join(root, `ours-${name}`), config);
  askPython(packages, root);
  const theirs = (await readdir(root)).filter((name) => name.startsWith('theirs-'));
  if (theirs.length !== shapes.length * types.length)
    throw new Error(`Python wrote ${theirs.length} policies: ${theirs.join(', ')}`);
  for (const name of theirs) for (const dir of [name, `${name}/adapter`]) await checkTheirs(root, dir);
  // CI has five minutes for all of this; the SDKs' checks take some of their own.
  const sdks = process.env['CI'] === undefined ? await checkSdks(root) : [];
  const readings = [...(await checkExports(root, pythonEnv(packages))), ...sdks];
  process.stdout.write(`interop: ${shapes.length} policies and adapters there, ${theirs.length} back\n`);
  const missing = readings.filter((one) => one.missing !== undefined);
  for (const { part, missing: why } of missing) process.stdout.write(`interop: NOT checked: ${part} (${why})\n`);
  process.stdout.write(
    `interop: exports and SDKs: ${readings.length - missing.length} projects read or ran, ${missing.length} not checked\n`,
  );
} finally {
  await rm(root, { recursive: true, force: true });
}
