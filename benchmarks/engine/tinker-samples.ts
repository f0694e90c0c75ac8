/**
 * How fast samplers of many adapters are served at once, in process: tokens per second of a tiny Qwen3 (vocabulary 512,
 * hidden 128, two layers) with an adapter of rank 8 for each sampler, beside the bare base and merged copies.
 *
 * Run: node benchmarks/engine/tinker-samples.ts [samplers ...]
 */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import { adapterConfigFile, adapterFile } from '../../trainer/lora/adapter-files.ts';
import { newAdapter } from '../../trainer/lora/new-adapter.ts';
import { type ModelConfig, modelConfigJson, parseModelConfig } from '../../trainer/model/config.ts';
import { initializeWeights } from '../../trainer/model/initialize.ts';
import { writeSafetensors } from '../../trainer/model/safetensors.ts';
import { saveWeights } from '../../trainer/model/weights.ts';
import { sampleFor } from '../../trainer/tenants/sample.ts';
import { median, randomIds } from './bench-models.ts';

const TOKENS = 64;
const PROMPT = 32;
const ROUNDS = 5;
const RANK = 8;

const config: ModelConfig = parseModelConfig({
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 512,
  hidden_size: 128,
  intermediate_size: 384,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  rms_norm_eps: 1e-6,
  rope_theta: 1_000_000,
  max_position_embeddings: 1024,
  tie_word_embeddings: true,
  initializer_range: 0.02,
  eos_token_id: 2,
});

async function makeBase(dir: string): Promise<string> {
  await mkdir(dir);
  await writeFile(join(dir, 'config.json'), JSON.stringify(modelConfigJson(config)));
  await saveWeights(dir, initializeWeights(config, 'bench'));
  return dir;
}

async function makeAdapter(dir: string, base: string, seed: number): Promise<string> {
  const settings = {
    rank: RANK,
    alpha: 32,
    targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const,
  };
  const { json, tensors } = newAdapter(config, { ...settings, targetModules: [...settings.targetModules] }, base, seed);
  await mkdir(dir);
  await writeFile(join(dir, adapterConfigFile), JSON.stringify(json));
  await writeSafetensors(join(dir, adapterFile), tensors);
  return dir;
}

interface Speed {
  readonly perSecond: number;
  /** By all threads of this process: what remains on a machine that does other work too. */
  readonly perProcessorSecond: number;
}

/** Tokens per second of one round: `samplers` requests at once, each of the next adapter. */
async function round(
  engine: EmbeddedEngine,
  base: string,
  adapters: readonly string[],
  samplers: number,
  seed: number,
): Promise<Speed> {
  const prompts = randomIds(samplers, PROMPT, config.vocabSize, `${seed}`);
  const [began, used] = [performance.now(), process.cpuUsage()];
  const results = await Promise.all(
    prompts.map((prompt, i) => {
      const dir = adapters[i % adapters.length];
      const sample = {
        prompt: Int32Array.from(prompt),
        count: 1,
        maxTokens: TOKENS,
        temperature: 1,
        topP: 1,
        topK: 0,
        stop: [],
        seed: i,
        promptLogprobs: false,
        topPrompt: 0,
        topSampled: 0,
      };
      return sampleFor(engine, { dir: base, version: 0 }, dir === undefined ? undefined : { dir }, sample, 'bench');
    }),
  );
  const tokens = results.reduce((sum, { sequences }) => sum + (sequences[0]?.tokens.length ?? 0), 0);
  const { user, system } = process.cpuUsage(used);
  return {
    perSecond: tokens / ((performance.now() - began) / 1000),
    perProcessorSecond: tokens / ((user + system) / 1e6),
  };
}

const samplers = process.argv.slice(2).map(Number);
const scratch = await mkdtemp(join(tmpdir(), 'longhaul-samples-'));
const engine = await createEmbeddedEngine({ onOutput: (line) => process.stderr.write(`${line}\n`) });
try {
  const base = await makeBase(join(scratch, 'base'));
  const adapters = await Promise.all(
    Array.from({ length: 64 }, (_, i) => makeAdapter(join(scratch, `adapter-${i}`), base, i)),
  );
  for (const many of samplers.length > 0 ? samplers : [1, 16, 64]) {
    for (const [name, used] of [
      ['bare base', []],
      ['one adapter', adapters.slice(0, 1)],
      ['an adapter each', adapters.slice(0, many)],
    ] as const) {
      await round(engine, base, used, many, -1);
      const speeds: Speed[] = [];
      for (let i = 0; i < ROUNDS; i++) speeds.push(await round(engine, base, used, many, i));
      const all = speeds.map(({ perSecond }) => perSecond);
      const [low, middle, high] = [Math.min(...all), median(all), Math.max(...all)].map(Math.round);
      const processor = Math.round(median(speeds.map(({ perProcessorSecond }) => perProcessorSecond)));
      process.stdout.write(
        `${many} samplers x ${TOKENS}, ${name}: ${middle} tokens/s (${low} to ${high}), ` +
          `${processor} per processor second\n`,
      );
    }
  }
} finally {
  await engine.close();
  await rm(scratch, { recursive: true });
}
