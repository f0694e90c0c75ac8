/**
 * Runs the stages of supervised training: the same configuration gives the same policy. A training that was ended
 * continues from its last saved state.
 */

import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { checkPolicy } from '../../activities/orchestrator/open-policy.ts';
import { describePolicy } from '../../trainer/model/describe-policy.ts';
import { layoutOf, parameterCount } from '../../trainer/model/parameters.ts';
import { runSft, type SftStep } from '../../trainer/sft.ts';
import { OtherTraining, type SftEvaluation } from '../../trainer/sft-states.ts';
import { type PreparedSft, prepareSft } from './prepare-sft.ts';
import type { SftConfig } from './sft-config.ts';

export interface SftPlan {
  readonly out: string;
  readonly parameters: number;
  readonly vocabulary: number;
  readonly data: PreparedSft['counts'];
  readonly stages: ReadonlyArray<{ readonly data: string; readonly steps: number }>;
}

export interface SftEnd extends SftPlan {
  readonly sha256: string;
  readonly tokens: number;
  readonly seconds: number;
  /** Steps that a saved state had; 0 if training began anew. */
  readonly resumedFrom: number;
  readonly evaluations: readonly SftEvaluation[];
}

/** The folder of saved states, which is removed when the policy is written. */
export const statesDir = ({ out }: Pick<SftConfig, 'out'>): string => `${out}.states`;

/** Makes and removes a folder in the nearest one that exists. Errors: `UserInputError`. */
async function checkWritable(out: string): Promise<void> {
  let beside = dirname(resolve(out));
  while (!existsSync(beside)) beside = dirname(beside);
  try {
    await rmdir(await mkdtemp(join(beside, '.longhaul-try-')));
  } catch (error) {
    const remedy = `give a folder that this user can make (--out DIR): ${(error as Error).message}`;
    throw new UserInputError('out', out, remedy, { cause: error });
  }
}

/** Checks the folders before hours of training, since a policy is never overwritten. Errors: `UserInputError`. */
async function checkPlaces({ out, initial }: SftConfig): Promise<void> {
  const there = await readdir(out).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : [out]));
  if (there.length > 0)
    throw new UserInputError('out', out, 'give a folder that is empty or does not exist (--out DIR)');
  await checkWritable(out);
  if (initial !== undefined) await checkPolicy(initial, 'initial');
}

async function planOf(config: SftConfig, { initial, counts, stages }: PreparedSft): Promise<SftPlan> {
  const size =
    typeof initial === 'string'
      ? await describePolicy(initial)
      : { parameters: parameterCount(layoutOf(initial)), vocabulary: initial.vocabSize };
  return { out: config.out, ...size, data: counts, stages: stages.map(({ data, steps }) => ({ data, steps })) };
}

function noteCounts(counts: PreparedSft['counts'], note: (line: string) => void): void {
  for (const [name, { train, evaluation }] of Object.entries(counts)) {
    const skipped = train.skipped + evaluation.skipped;
    note(
      `${name}: ${train.records} records, ${train.tokens} tokens, ${train.targets} trained` +
        `${evaluation.records === 0 ? '' : ` · evaluation ${evaluation.records} records, ${evaluation.targets} tokens`}` +
        `${skipped === 0 ? '' : ` · ${skipped} left out: longer than maxTokens`}`,
    );
  }
}

/** Reports a line every 25 steps and at a stage's end: the mean loss since the last line, and the speed. */
function reporter({ stages }: PreparedSft, note: (line: string) => void) {
  const begun = performance.now();
  const totals = { tokens: 0, loss: 0, steps: 0 };
  const onStep = (step: SftStep) => {
    totals.tokens += step.tokens;
    totals.loss += step.loss;
    totals.steps += 1;
    const { data, steps } = stages[step.stage] ?? { data: '', steps: 0 };
    if ((step.step + 1) % 25 !== 0 && step.step + 1 !== steps) return;
    const seconds = (performance.now() - begun) / 1000;
    const speed = Math.round(totals.tokens / seconds);
    note(
      `stage ${step.stage + 1} (${data}) step ${step.step + 1}/${steps} · loss ` +
        `${(totals.loss / totals.steps).toFixed(4)} · ${speed} tok/s · ${seconds.toFixed(0)} s`,
    );
    totals.loss = 0;
    totals.steps = 0;
  };
  const onEvaluation = ({ steps, loss, accuracy, targets }: SftEvaluation) => {
    note(
      `evaluation after step ${steps} · loss ${loss.toFixed(4)} · accuracy ${accuracy.toFixed(3)} · ${targets} tokens`,
    );
  };
  return { onStep, onEvaluation, seconds: () => (performance.now() - begun) / 1000 };
}

export interface SftProgressReports {
  /** A line of progress. */
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
  /** Called with the steps of each state that is saved. */
  readonly onSaved?: (steps: number) => void;
}

async function train(config: SftConfig, prepared: PreparedSft, { note, signal, onSaved }: SftProgressReports) {
  const report = reporter(prepared, note);
  const { seed, lora, checkpoint } = config;
  let resumedFrom = 0;
  const onState = (steps: number, event: 'saved' | 'found'): void => {
    if (event === 'saved') return onSaved?.(steps);
    resumedFrom = steps;
    note(`continues after step ${steps}, from ${statesDir(config)}`);
  };
  const { sha256, progress } = await runSft({
    initial: prepared.initial,
    data: prepared.batch,
    stages: prepared.stages,
    seed,
    ...(lora !== undefined && { lora: { ...lora, seed } }),
    toDir: config.out,
    tokenizerDir: prepared.tokenizerDir,
    optimizer: { weightDecay: config.weightDecay },
    microBatchTokens: config.microBatchTokens,
    packing: config.packing,
    gradientCheckpointing: config.gradientCheckpointing,
    onStep: report.onStep,
    ...(prepared.evaluationSequences.length > 0 && {
      evaluation: {
        sequences: prepared.evaluationSequences,
        every: config.evaluation.every,
        onEvaluation: report.onEvaluation,
      },
    }),
    states: { dir: statesDir(config), input: prepared.input, ...checkpoint, onState },
    signal,
  });
  const { tokens, evaluations } = progress;
  return { sha256, tokens, seconds: report.seconds(), resumedFrom, evaluations };
}

/** Prepares training and ends: settings, records and the number of steps are checked, and nothing is written. */
export async function planSft(config: SftConfig, note: (line: string) => void): Promise<SftPlan> {
  await checkPlaces(config);
  return inTemporary(async (dir) => {
    const prepared = await prepareSft(config, dir);
    noteCounts(prepared.counts, note);
    return planOf(config, prepared);
  });
}

async function inTemporary<T>(body: (dir: string) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-sft-'));
  try {
    return await body(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/**
 * Writes `config.out` atomically. Errors: `UserInputError` for an `out` that is not empty, for an `initial` that is no
 * policy, and for saved states of other settings; those of `prepareSft` and `runSft`; the reason of `signal`, after
 * the step in which it is aborted.
 */
export async function runSftConfig(config: SftConfig, reports: SftProgressReports): Promise<SftEnd> {
  await checkPlaces(config);
  return inTemporary(async (dir) => {
    const prepared = await prepareSft(config, dir);
    noteCounts(prepared.counts, reports.note);
    const plan = await planOf(config, prepared);
    try {
      const done = await train(config, prepared, reports);
      if (!config.checkpoint.keep) await rm(statesDir(config), { recursive: true, force: true });
      return { ...plan, ...(await describePolicy(config.out)), ...done };
    } catch (error) {
      if (!(error instanceof OtherTraining)) throw error;
      throw new UserInputError('out', config.out, `${error.message}; remove that folder, or give another --out`, {
        cause: error,
      });
    }
  });
}
