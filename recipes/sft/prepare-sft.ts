/**
 * What supervised training needs before its first step: the tokenizer, every record read, checked and encoded, and the
 * number of steps of each stage.
 */

import { createHash } from 'node:crypto';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { stampOf } from '../../trainer/checkpoints/policy-files.ts';
import type { ModelConfig } from '../../trainer/model/config.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import type { TokenSequence } from '../../trainer/model/token-batch.ts';
import type { SftBatchRequest, SftStage } from '../../trainer/sft.ts';
import { loadTokenizer, type Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { generator } from '../generators.ts';
import { makeNewPolicy } from './new-policy.ts';
import { openRecords, type SourceCounts } from './record-source.ts';
import type { DataSettings, SftConfig } from './sft-config.ts';

/** Examples by number. */
interface Source {
  /** Number of examples of one epoch; `undefined`: they have no end. */
  readonly size?: number;
  readonly sequences: (n: number) => readonly TokenSequence[];
  readonly evaluationSequences: readonly TokenSequence[];
  readonly counts?: { readonly train: SourceCounts; readonly evaluation: SourceCounts };
  /** Changes if the examples do. */
  readonly digest: string;
}

export type NamedStage = SftStage & { readonly data: string; readonly first?: number | undefined };

export interface PreparedSft {
  /** The shape of a new policy, or the directory of the one that training continues. */
  readonly initial: ModelConfig | string;
  readonly tokenizerDir: string;
  readonly stages: readonly NamedStage[];
  readonly batch: (request: SftBatchRequest) => readonly TokenSequence[];
  readonly evaluationSequences: readonly TokenSequence[];
  /** By the data's names; data that is generated has none. */
  readonly counts: Readonly<Record<string, NonNullable<Source['counts']>>>;
  /** Names everything that the policy's bits depend on. */
  readonly input: string;
}

/** The number of each stage's first example: the stage's `first`, or where the last stage of its data ended. */
export function firstsOf(stages: ReadonlyArray<Pick<NamedStage, 'data' | 'first' | 'steps' | 'batchSize'>>): number[] {
  const next = new Map<string, number>();
  return stages.map(({ data, first = next.get(data) ?? 0, steps, batchSize }) => {
    next.set(data, first + steps * batchSize);
    return first;
  });
}

interface Encoding {
  readonly tokenizer: Tokenizer;
  readonly maxTokens: number;
}

async function openSource(
  config: SftConfig,
  name: string,
  settings: DataSettings,
  encoding: Encoding,
): Promise<Source> {
  const { files, generate } = settings;
  if (generate !== undefined)
    return { sequences: generator(generate, encoding.tokenizer), evaluationSequences: [], digest: generate };
  const { tooLong, seed } = config;
  const opened = await openRecords(name, { ...settings, files: files ?? [] }, { ...encoding, tooLong, seed });
  if (opened.size === 0) throw new UserInputError(`data.${name}.files`, files, 'give a file with a record to train on');
  if (settings.evaluation !== undefined && opened.evaluationSequences.length === 0)
    throw new UserInputError(`data.${name}.evaluation`, settings.evaluation, 'give records that can be evaluated');
  return { ...opened, counts: { train: opened.train, evaluation: opened.evaluation } };
}

/** Errors: `UserInputError` if the policy's context is shorter. */
function longestOf({ maxTokens }: SftConfig, { maxPositions }: ModelConfig): number {
  if (maxTokens !== undefined && maxTokens > maxPositions)
    throw new UserInputError('maxTokens', maxTokens, `give at most ${maxPositions}, the policy's longest context`);
  return maxTokens ?? maxPositions;
}

function stagesOf({ stages }: SftConfig, sources: Readonly<Record<string, Source>>): NamedStage[] {
  return stages.map(({ epochs = 0, steps, ...stage }) => ({
    ...stage,
    steps: steps ?? Math.max(1, Math.ceil((epochs * (sources[stage.data]?.size ?? 0)) / stage.batchSize)),
  }));
}

/** Paths, and settings that change no bit, are left out. */
async function inputOf(config: SftConfig, sources: Readonly<Record<string, Source>>): Promise<string> {
  const { out: _out, checkpoint: _checkpoint, evaluation: _evaluation, data, initial, tokenizer, ...rest } = config;
  const shown = {
    ...rest,
    initial: initial === undefined ? null : await stampOf(initial),
    tokenizer: tokenizer?.from === undefined ? (tokenizer ?? null) : await stampOf(tokenizer.from),
    data: Object.entries(data).map(([name, { files: _files, ...settings }]) => [name, settings, sources[name]?.digest]),
  };
  return createHash('sha256').update(JSON.stringify(shown)).digest('hex');
}

/**
 * `dir`: an empty folder, for the tokenizer of a new policy. Errors: `UserInputError`, `BadRecord`,
 * `UnusableTokenizer`, `UnsupportedModel`.
 */
export async function prepareSft(config: SftConfig, dir: string): Promise<PreparedSft> {
  const tokenizerDir = config.initial ?? dir;
  const made = config.model && (await makeNewPolicy(config, config.model, dir));
  const model = made?.config ?? (await readModelConfig(tokenizerDir));
  const encoding = {
    tokenizer: made?.tokenizer ?? (await loadTokenizer(tokenizerDir)),
    maxTokens: longestOf(config, model),
  };
  const sources: Record<string, Source> = {};
  for (const [name, settings] of Object.entries(config.data))
    sources[name] = await openSource(config, name, settings, encoding);
  const stages = stagesOf(config, sources);
  const firsts = firstsOf(stages);
  return {
    initial: made?.config ?? tokenizerDir,
    tokenizerDir,
    stages,
    batch: ({ stage, step, batchSize }) => {
      const source = sources[stages[stage]?.data ?? ''];
      const first = (firsts[stage] ?? 0) + step * batchSize;
      return Array.from({ length: batchSize }, (_, i) => source?.sequences(first + i) ?? []).flat();
    },
    evaluationSequences: Object.values(sources).flatMap(({ evaluationSequences }) => evaluationSequences),
    counts: Object.fromEntries(
      Object.entries(sources).flatMap(([name, { counts }]) => (counts === undefined ? [] : [[name, counts]])),
    ),
    input: await inputOf(config, sources),
  };
}
