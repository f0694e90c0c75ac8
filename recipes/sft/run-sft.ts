/** Runs the stages of supervised training: the same configuration gives the same policy. */

import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { checkPolicy } from '../../activities/orchestrator/open-run.ts';
import { type SequenceKind, sequenceSource } from '../starter/sequences.ts';
import { makeStarterTokenizer } from '../starter/make-tokenizer.ts';
import { type ModelConfig, parseModelConfig } from '../../trainer/model/config.ts';
import { describePolicy } from '../../trainer/model/describe-policy.ts';
import { runSft, type SftBatchRequest, type SftStep } from '../../trainer/sft.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import type { SftConfig } from './sft-config.ts';

export interface SftEnd {
  readonly out: string;
  readonly sha256: string;
  readonly parameters: number;
  readonly vocabulary: number;
  readonly tokens: number;
  readonly seconds: number;
}

/** Writes the starter's tokenizer, which a new policy needs before its weights. */
async function writeTokenizer(dir: string, vocabulary: SftConfig['vocabulary'], maxLength: number) {
  const files = makeStarterTokenizer({ ...vocabulary, maxLength });
  for (const name of ['tokenizer.json', 'tokenizer_config.json'] as const)
    await writeFile(join(dir, name), files[name]);
}

function modelConfig(model: NonNullable<SftConfig['model']>, vocabulary: number, end: number): ModelConfig {
  return parseModelConfig({
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    hidden_size: model.hidden,
    num_hidden_layers: model.layers,
    num_attention_heads: model.heads,
    num_key_value_heads: model.kvHeads,
    head_dim: model.headDim,
    intermediate_size: model.intermediate,
    vocab_size: vocabulary,
    max_position_embeddings: model.maxPositions,
    rms_norm_eps: 1e-6,
    rope_theta: model.ropeTheta,
    tie_word_embeddings: true,
    attention_bias: false,
    hidden_act: 'silu',
    initializer_range: model.initializerRange,
    eos_token_id: end,
    torch_dtype: 'float32',
  });
}

/** The number of each stage's first sequence: the stage's `first`, or where the last stage of its kind ended. */
export function firstsOf(stages: SftConfig['stages']): number[] {
  const next = new Map<SequenceKind, number>();
  return stages.map(({ data, first = next.get(data) ?? 0, steps, batchSize }) => {
    next.set(data, first + steps * batchSize);
    return first;
  });
}

/** The sequences of each batch. */
function batches(
  config: SftConfig,
  sequence: (kind: SequenceKind, n: number) => ReturnType<ReturnType<typeof sequenceSource>>,
) {
  const firsts = firstsOf(config.stages);
  return ({ stage, step, batchSize }: SftBatchRequest) => {
    const kind = config.stages[stage]?.data ?? 'clean';
    const first = (firsts[stage] ?? 0) + step * batchSize;
    return Array.from({ length: batchSize }, (_, i) => sequence(kind, first + i));
  };
}

/** Checks the folders before hours of training, since a policy is never overwritten. Errors: `UserInputError`. */
async function checkPlaces({ out, initial }: SftConfig): Promise<void> {
  const there = await readdir(out).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : [out]));
  if (there.length > 0)
    throw new UserInputError('out', out, 'give a folder that is empty or does not exist (--out DIR)');
  if (initial !== undefined) await checkPolicy(initial, 'initial');
}

/** Reports a line every 25 steps and at a stage's end: the mean loss since the last line, and the speed. */
function reporter(config: SftConfig, note: (line: string) => void, signal: AbortSignal) {
  const begun = performance.now();
  const totals = { tokens: 0, loss: 0, steps: 0 };
  const onStep = (step: SftStep) => {
    signal.throwIfAborted();
    totals.tokens += step.tokens;
    totals.loss += step.loss;
    totals.steps += 1;
    const { data, steps } = config.stages[step.stage] ?? { data: 'clean', steps: 0 };
    if ((step.step + 1) % 25 !== 0 && step.step + 1 !== steps) return;
    const seconds = (performance.now() - begun) / 1000;
    const speed = Math.round(totals.tokens / seconds);
    note(
      `stage ${step.stage + 1} (${data}) step ${step.step + 1}/${steps} · loss ${(totals.loss / totals.steps).toFixed(4)} · ${speed} tok/s · ${seconds.toFixed(0)} s`,
    );
    totals.loss = 0;
    totals.steps = 0;
  };
  return { onStep, tokens: () => totals.tokens, seconds: () => (performance.now() - begun) / 1000 };
}

/**
 * Writes `config.out` atomically. Errors: `UserInputError` for an `out` that is not empty, and for an `initial` that is
 * no policy; those of `runSft`; the reason of `signal`, after the step in which it is aborted.
 */
export async function runSftConfig(
  config: SftConfig,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<SftEnd> {
  await checkPlaces(config);
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-sft-'));
  try {
    const tokenizerDir = config.initial ?? dir;
    if (config.model) await writeTokenizer(dir, config.vocabulary, config.model.maxPositions);
    const tokenizer = await loadTokenizer(tokenizerDir);
    const [end = 0] = tokenizer.stopTokenIds;
    const { model, initial, lora } = config;
    const report = reporter(config, note, signal);
    const { sha256 } = await runSft({
      initial: model ? modelConfig(model, config.vocabulary.size, end) : (initial ?? ''),
      data: batches(config, sequenceSource(tokenizer)),
      stages: config.stages,
      seed: config.seed,
      ...(lora === undefined ? {} : { lora: { ...lora, seed: config.seed } }),
      toDir: config.out,
      tokenizerDir,
      optimizer: { weightDecay: config.weightDecay },
      microBatchTokens: config.microBatchTokens,
      packing: config.packing,
      gradientCheckpointing: config.gradientCheckpointing,
      onStep: report.onStep,
    });
    return {
      out: config.out,
      sha256,
      ...(await describePolicy(config.out)),
      tokens: report.tokens(),
      seconds: report.seconds(),
    };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
