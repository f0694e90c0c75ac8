/**
 * Tokens per second of `forward_backward` with an adapter beside its base, in the engine's thread: `node
 * benchmarks/engine/adapters.ts [OTHERS]`. OTHERS idle adapters are in memory meanwhile; they must not change the
 * number. The model is that of the published numbers of SkyRL's Tinker server.
 */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { AdapterSettings, TinkerPass } from '../../protocol/tinker.ts';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import { modelConfigJson, parseModelConfig } from '../../trainer/model/config.ts';
import { initializeWeights } from '../../trainer/model/initialize.ts';
import { saveWeights } from '../../trainer/model/weights.ts';
import type { AdapterTrainer } from '../../trainer/tenants/definition.ts';
import { median, randomIds } from './bench-models.ts';

const TINY = {
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 512,
  hidden_size: 128,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  max_position_embeddings: 2048,
  tie_word_embeddings: false,
  eos_token_id: 2,
};
const SETTINGS: AdapterSettings = { rank: 8, alpha: 16, seed: 1, attention: true, mlp: true, unembed: true };
const ADAM = { learningRate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12, weightDecay: 0, gradClipNorm: 0 };
const ROUNDS = 20;

async function writeModel(dir: string): Promise<string> {
  const config = parseModelConfig(TINY);
  await mkdir(dir, { recursive: true });
  await writeFile(path.join(dir, 'config.json'), JSON.stringify(modelConfigJson(config)));
  await saveWeights(dir, initializeWeights(config, 'bench'));
  return dir;
}

function pass(sequences: number, tokens: number, round: number, backward: boolean): TinkerPass {
  const data = randomIds(sequences, tokens + 1, TINY.vocab_size, `adapters ${round}`).map((ids) => ({
    tokens: Int32Array.from(ids.slice(0, -1)),
    targets: Int32Array.from(ids.slice(1)),
  }));
  return { data, loss: 'cross_entropy', config: {}, backward };
}

/** Median milliseconds of a call; the first ones make the graphs. */
async function measure(call: (round: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = -3; round < ROUNDS; round++) {
    const begun = performance.now();
    await call(round);
    if (round >= 0) times.push(performance.now() - begun);
  }
  return median(times);
}

async function report(trainer: AdapterTrainer): Promise<void> {
  const say = (name: string, value: number, unit: string): void => console.log(`${name}: ${value.toFixed(1)} ${unit}`);
  const speed = (sequences: number, tokens: number, ms: number): number => (sequences * tokens * 1000) / ms;
  for (const [sequences, tokens] of [
    [8, 128],
    [64, 128],
    [1, 1024],
  ] as const) {
    const ms = await measure((round) => trainer.pass('own', pass(sequences, tokens, round, true)));
    say(`forward_backward ${sequences} × ${tokens}`, speed(sequences, tokens, ms), 'tokens/s');
  }
  const both = await measure((round) =>
    Promise.all([trainer.pass('own', pass(8, 128, round, true)), trainer.optimStep('own', ADAM)]),
  );
  say('forward_backward and optim_step 8 × 128', speed(8, 128, both), 'tokens/s');
  say('forward of 8 tokens', await measure((round) => trainer.pass('own', pass(1, 8, round, false))), 'ms');
}

const scratch = await mkdtemp(path.join(tmpdir(), 'longhaul-adapters-'));
const engine = await createEmbeddedEngine();
try {
  const trainer = engine.tenants(await writeModel(path.join(scratch, 'tiny')));
  const others = Number(process.argv[2] ?? 0);
  for (let i = 0; i < others; i++) await trainer.create(`other ${i}`, { ...SETTINGS, seed: i });
  await trainer.create('own', SETTINGS);
  console.log(`${others} other adapters in memory`);
  await report(trainer);
} finally {
  await engine.close();
  await rm(scratch, { recursive: true });
}
