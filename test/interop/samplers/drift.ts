/**
 * The drift of a server's log-probabilities from the engine's, over the samples that `real-vllm.ts` kept:
 * `node test/interop/samplers/drift.ts FOLDER BASE`. The checkpoints are made again: they follow from BASE.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Learner } from '../../../trainer/learner.ts';
import { mergedWeights } from '../../../trainer/lora/merged-weights.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { gathered, loadWeights } from '../../../trainer/model/weights.ts';
import { adapterCheckpoint, wholeCheckpoint } from './made-checkpoints.ts';

interface Sampled {
  readonly kind: string;
  readonly folder: string;
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
  readonly logprobs: readonly number[];
}

const [from = '', base = ''] = process.argv.slice(2).map((given) => path.resolve(given));
const samples = JSON.parse(await readFile(path.join(from, 'samples.json'), 'utf8')) as Sampled[];
const dir = await mkdtemp(path.join(tmpdir(), 'longhaul-drift-'));
const config = await readModelConfig(base);

async function learnerOf(folder: string): Promise<Learner> {
  const [form, version] = folder.split('-');
  if (form === 'whole')
    return new Learner(config, await loadWeights(await wholeCheckpoint(base, dir, Number(version))));
  const adapter = await adapterCheckpoint(base, dir, Number(version));
  return new Learner(config, await gathered(await mergedWeights(adapter, config)));
}

for (const [name, some] of Map.groupBy(samples, ({ kind, folder }) => `${kind}, ${folder}`)) {
  const learner = await learnerOf(some[0]!.folder);
  const gaps = some.flatMap(({ prompt, tokens, logprobs }) => {
    const mask = [...prompt.map(() => 0), ...tokens.map(() => 1)];
    const { logprobs: own } = learner.forward(tokenBatch([{ tokens: [...prompt, ...tokens], mask }]), false);
    return logprobs.map((value, i) => Math.abs(value - own[i]!));
  });
  learner.dispose();
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  console.log(
    `${name}: ${gaps.length} tokens of ${some.length} answers: mean ${mean.toExponential(2)}, ` +
      `most ${Math.max(...gaps).toExponential(2)} nats`,
  );
}
await rm(dir, { recursive: true });
