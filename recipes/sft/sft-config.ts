/** The configuration of `longhaul sft`: every field and its bounds. Relative paths start at the file's folder. */

import { access } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { loraSchema } from '../../config/algorithm/critic-schema.ts';
import { checkPolicyAdapter } from '../../activities/orchestrator/check-adapter.ts';
import { parseSettings } from '../../config/run-config.ts';
import { modelUri } from '../../trainer/hub/hub-id.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { RATE_SCHEDULES } from '../../protocol/algorithm.ts';
import { readSettings } from '../../config/read-config.ts';
import { GENERATORS, TOKENIZER_MAKERS } from '../generators.ts';

const count = z.int().min(1);
const oneOrMore = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)], 'give a file, or a list of files');

const data = z.strictObject({
  /** Files of records, as `readRecords` reads them. */
  files: oneOrMore.optional(),
  /** Examples that a recipe makes, without end. */
  generate: z.enum(GENERATORS).optional(),
  /** Names of a record's fields. */
  messages: z.string().min(1).default('messages'),
  prompt: z.string().min(1).default('prompt'),
  answer: z.string().min(1).default('answer'),
  /** The assistant's messages that are trained: all, or the last one of each record. */
  loss: z.enum(['all', 'last']).default('all'),
  /** Records that are kept from training: a share of them, or those of other files. */
  evaluation: z.strictObject({ share: z.number().gt(0).lt(1).optional(), files: oneOrMore.optional() }).optional(),
});

const stage = z.strictObject({
  /** A name of `data`. Default: its only one. */
  data: z.string().optional(),
  /** Number of the first example. Default: the one after the last stage of the same data. */
  first: z.int().min(0).optional(),
  steps: count.optional(),
  /** In place of `steps`: how often all records are trained on. */
  epochs: z.number().positive().optional(),
  batchSize: count,
  learningRate: z.number().positive(),
  warmup: z.int().min(0).default(0),
  schedule: z.enum(RATE_SCHEDULES).default('cosine'),
  finalRate: z.number().min(0).max(1).default(0),
});

const schema = z.strictObject({
  seed: z.int().min(0).default(1),
  out: z.string().min(1),
  /** The policy from which training continues. Absent: a new policy with the shape `model`. */
  initial: z.string().optional(),
  model: z
    .strictObject({
      layers: count,
      hidden: count,
      heads: count,
      kvHeads: count,
      headDim: count,
      intermediate: count,
      ropeTheta: z.number().positive().default(10_000),
      initializerRange: z.number().positive().default(0.02),
      maxPositions: count.default(1024),
    })
    .optional(),
  /**
   * The new policy's: of the folder `from`; else learned from `texts` conversations, with at most `size` ids.
   * `generate`: a recipe's own one.
   */
  tokenizer: z
    .strictObject({
      from: z.string().min(1).optional(),
      generate: z.enum(TOKENIZER_MAKERS).optional(),
      /** Of a small policy: a short chat template, these texts and groups of so many digits as one token each. */
      compact: z
        .strictObject({ tokens: z.array(z.string().min(1)).default([]), digits: z.int().min(1).max(3).default(1) })
        .optional(),
      size: count.default(4096),
      texts: count.default(20_000),
    })
    .optional(),
  data: z.record(z.string().min(1), data),
  /** The longest sequence. Default: the longest context of the policy. In tokens. */
  maxTokens: count.min(2).optional(),
  tooLong: z.enum(['refuse', 'skip', 'cut']).default('refuse'),
  /** Trains an adapter of `initial`. */
  lora: loraSchema.optional(),
  weightDecay: z.number().min(0).default(0.01),
  microBatchTokens: count.default(8192),
  packing: z.boolean().default(false),
  gradientCheckpointing: z.boolean().default(false),
  stages: z.array(stage).min(1),
  /** Loss and accuracy on the records kept from training, every so many steps. */
  evaluation: z.strictObject({ every: count.default(50) }).prefault({}),
  /** A state is saved every so many steps; 0: never. */
  checkpoint: z.strictObject({ every: z.int().min(0).default(50), keep: z.boolean().default(false) }).prefault({}),
});

type Parsed = z.output<typeof schema>;
type Listed<T> = Omit<T, 'files'> & { readonly files?: readonly string[] };
export type DataSettings = Omit<Listed<Parsed['data'][string]>, 'evaluation'> & {
  readonly evaluation?: { readonly share?: number | undefined; readonly files?: readonly string[] | undefined };
};
export type SftConfig = Omit<Parsed, 'data' | 'stages'> & {
  readonly data: Readonly<Record<string, DataSettings>>;
  readonly stages: ReadonlyArray<Parsed['stages'][number] & { readonly data: string }>;
};

/** Exactly one of the two must be given. */
function oneOf(field: string, settings: object, [a, b]: readonly [string, string]): void {
  const value = settings as Readonly<Record<string, unknown>>;
  if ((value[a] === undefined) !== (value[b] === undefined)) return;
  throw new UserInputError(field, value[a], `give either \`${a}\` or \`${b}\``);
}

/** Settings that have no effect beside each other are refused. Errors: `UserInputError`. */
function checkRules(config: Parsed): void {
  oneOf('initial', config, ['initial', 'model']);
  if (config.lora !== undefined && config.initial === undefined)
    throw new UserInputError('lora', config.lora, 'give `initial`, the policy that gets the adapter');
  if (config.tokenizer !== undefined && config.initial !== undefined)
    throw new UserInputError('tokenizer', config.tokenizer, 'leave it out: `initial` has its own');
  if (config.tokenizer?.from !== undefined && config.tokenizer.generate !== undefined)
    throw new UserInputError('tokenizer.generate', config.tokenizer.generate, 'leave it out, or leave `from` out');
  if (config.tokenizer?.compact !== undefined && (config.tokenizer.from ?? config.tokenizer.generate) !== undefined)
    throw new UserInputError('tokenizer.compact', config.tokenizer.compact, 'leave `from` and `generate` out');
  for (const [name, settings] of Object.entries(config.data)) {
    oneOf(`data.${name}.files`, settings, ['files', 'generate']);
    if (settings.evaluation === undefined) continue;
    const field = `data.${name}.evaluation`;
    if (settings.files === undefined)
      throw new UserInputError(field, settings.evaluation, 'leave it out: examples that are generated have no records');
    oneOf(`${field}.share`, settings.evaluation, ['share', 'files']);
  }
}

/** The stage with its data's name. Errors: `UserInputError`. */
function checkedStage(given: Parsed['stages'][number], index: number, sources: Parsed['data']) {
  const names = Object.keys(sources);
  const name = given.data ?? (names.length === 1 ? names[0] : undefined);
  const field = `stages.${index}`;
  if (name === undefined || !names.includes(name))
    throw new UserInputError(
      `${field}.data`,
      given.data,
      `give a name of \`data\`: ${names.join(', ') || '(none yet)'}`,
    );
  oneOf(`${field}.steps`, given, ['steps', 'epochs']);
  if (given.epochs !== undefined && sources[name]?.files === undefined)
    throw new UserInputError(`${field}.epochs`, given.epochs, 'give steps: examples that are generated have no end');
  return { ...given, data: name };
}

async function checkFiles(field: string, files: readonly string[] | undefined): Promise<void> {
  for (const file of files ?? [])
    await access(file).catch(() => {
      throw new UserInputError(field, file, 'give a file that can be read');
    });
}

function absoluteFiles(files: string | readonly string[], here: (name: string) => string): string[] {
  return (typeof files === 'string' ? [files] : [...files]).map(here);
}

/** Errors: `UserInputError` for a file that cannot be read. */
async function checkedData(name: string, given: Parsed['data'][string], here: (name: string) => string) {
  const { files, evaluation, ...rest } = given;
  const settings: DataSettings = {
    ...rest,
    ...(files !== undefined && { files: absoluteFiles(files, here) }),
    ...(evaluation !== undefined && {
      evaluation: {
        share: evaluation.share,
        ...(evaluation.files !== undefined && { files: absoluteFiles(evaluation.files, here) }),
      },
    }),
  };
  await checkFiles(`data.${name}.files`, settings.files);
  await checkFiles(`data.${name}.evaluation.files`, settings.evaluation?.files);
  return [name, settings] as const;
}

export interface SftOptions {
  /** The folder of the result, in place of the configuration's. */
  readonly out?: string | undefined;
  /** Assignments `a.b=c`, with the value in YAML. */
  readonly set?: readonly string[] | undefined;
}

/** Errors: `UserInputError` with field, value and remedy; `ModelUnavailable`. */
export async function readSftConfig(path: string, { out, set }: SftOptions = {}): Promise<SftConfig> {
  const config = parseSettings(schema, await readSettings(path, set));
  checkRules(config);
  const here = (name: string) => resolve(dirname(path), name);
  const model = (name: string) => resolveModel(modelUri(name, dirname(path)));
  const initial = config.initial === undefined ? undefined : await model(config.initial);
  if (initial !== undefined) await checkPolicyAdapter('lora', config.lora, initial);
  const { tokenizer } = config;
  return {
    ...config,
    out: out === undefined ? here(config.out) : resolve(out),
    ...(initial !== undefined && { initial }),
    ...(tokenizer?.from !== undefined && { tokenizer: { ...tokenizer, from: await model(tokenizer.from) } }),
    data: Object.fromEntries(
      await Promise.all(Object.entries(config.data).map(([name, settings]) => checkedData(name, settings, here))),
    ),
    stages: config.stages.map((given, i) => checkedStage(given, i, config.data)),
  };
}
