/**
 * Exports the rollouts of a run or an eval. One group's turns are in memory at a time beside what its format buffers,
 * so memory does not grow with the number of rollouts. Every rollout has a line in `rollouts.jsonl`, also without rows.
 */

import { join } from 'node:path';
import { setImmediate as otherWork } from 'node:timers/promises';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { Store } from '../../store/store.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { toldOf } from './chat-contexts.ts';
import { LineFile, writeFolder, writeWhole } from './export-files.ts';
import { exportedRollout, refusePrunedTurns, sequencedRollout, type SequencedRollout } from './exported-rollout.ts';
import { jsonlWriter, parquetWriter } from './formats/chats.ts';
import type { FormatName, Placed, ToldRollout, Writer } from './formats/format.ts';
import { skyrlWriter } from './formats/skyrl.ts';
import { tinkerWriter } from './formats/tinker.ts';
import { verlWriter } from './formats/verl.ts';
import { groupsOf, type OutcomeGroup } from './groups.ts';
import { encodedFromText } from './skyrl/encode-rollout.ts';

export interface ExportSettings {
  /** A run's name, or `eval/ID`. */
  readonly name: string;
  readonly format: FormatName;
  readonly out: string;
  /** Of a run. Absent: all that are complete. */
  readonly step?: number;
  /** Leaves out masked rollouts. */
  readonly validOnly: boolean;
  /** `skyrl`: masked copies stand for rollouts without turns. */
  readonly fill: boolean;
  /** `skyrl`, `verl`: the rest of a longer response is cut off. Absent: nothing is. */
  readonly maxResponseTokens?: number;
  /** `verl`. */
  readonly padTokenId: number;
  /** `skyrl`, `verl`: encodes rollouts that have no token ids. Absent: they are refused. */
  readonly tokenizer?: Tokenizer;
  /** Of what `tokenizer` encodes. */
  readonly removesReasoning: boolean;
}

export interface ExportReport {
  readonly run: string;
  readonly format: FormatName;
  readonly groups: number;
  readonly rollouts: number;
  /** Rollouts by why they are masked. They are in the files unless `validOnly`. */
  readonly masked: Readonly<Record<string, number>>;
  /** Rollouts that were left out by `validOnly`. */
  readonly leftOut: number;
  /** Rollouts of which nothing could be written: nothing was sampled in them. */
  readonly withoutRows: number;
  /** Sequences, Datums or chats. */
  readonly rows: number;
  /** Rows whose log-probabilities nobody gave, where the format has such a column. */
  readonly rowsWithoutLogprobs: number;
  readonly files: readonly string[];
}

interface Deps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly signal: AbortSignal;
  /** Receives progress. */
  readonly note: (line: string) => void;
}

const SAY_EVERY = 500;
const PRUNED = 'give --format jsonl or parquet, which need the messages alone';

class Tally {
  readonly masked: Record<string, number> = {};
  readonly files = new Set<string>();
  groups = 0;
  rollouts = 0;
  leftOut = 0;
  withoutRows = 0;
  rows = 0;
  rowsWithoutLogprobs = 0;
}

type Reader<Rollout> = (outcome: OutcomeGroup['outcomes'][number]) => Promise<Rollout>;

interface Line {
  readonly masked: string | null;
  readonly finishReason: string;
  readonly sample: number;
  readonly outcome: OutcomeGroup['outcomes'][number];
  readonly sequences?: ReadonlyArray<{ readonly logprobs: unknown }>;
}

/** Writes every group by `writer`, and a line for each rollout. */
async function writeGroups<Rollout extends Line>(
  settings: ExportSettings,
  folder: string,
  writer: Writer<Rollout>,
  read: Reader<Rollout>,
  { store, signal, note }: Deps,
): Promise<Tally> {
  const tally = new Tally();
  const lines = await LineFile.create(join(folder, 'rollouts.jsonl'));
  for await (const { outcomes, ...group } of groupsOf(settings.name, settings.step, store)) {
    const rollouts: Rollout[] = [];
    for (const outcome of outcomes) {
      signal.throwIfAborted();
      const rollout = await read(outcome);
      if (rollout.masked !== null) tally.masked[rollout.masked] = (tally.masked[rollout.masked] ?? 0) + 1;
      if (settings.validOnly && rollout.masked !== null) tally.leftOut += 1;
      else rollouts.push(rollout);
    }
    const placed = rollouts.length === 0 ? [] : await writer.add({ ...group, rollouts });
    for (const [i, rollout] of rollouts.entries()) await lines.add(lineOf(rollout, placed[i], group));
    count(tally, rollouts, placed);
    if (Math.floor(tally.rollouts / SAY_EVERY) > Math.floor((tally.rollouts - rollouts.length) / SAY_EVERY))
      note(`${tally.rollouts} rollouts`);
    await otherWork();
  }
  await writer.close();
  await lines.close();
  return tally;
}

function count(tally: Tally, rollouts: readonly Line[], placed: readonly Placed[]): void {
  tally.groups += 1;
  tally.rollouts += rollouts.length;
  for (const { file, rows } of placed) {
    tally.rows += rows;
    if (rows === 0) tally.withoutRows += 1;
    else tally.files.add(file);
  }
  const sequences = rollouts.flatMap((rollout) => rollout.sequences ?? []);
  tally.rowsWithoutLogprobs += sequences.filter(({ logprobs }) => logprobs === null).length;
}

function lineOf(
  { outcome, masked, finishReason, sample }: Line,
  placed: Placed | undefined,
  { name, step, cell }: Omit<OutcomeGroup, 'outcomes'>,
) {
  const { rollout, task, reward, passed, finish, failure, reason } = outcome;
  return {
    rollout,
    group: name,
    task,
    sample,
    ...(step !== undefined && { step }),
    ...(cell !== undefined && { cell }),
    reward,
    passed,
    finish,
    failure,
    reason,
    masked,
    skyrl_finish_reason: finishReason,
    ...(placed && placed.rows > 0 && { file: placed.file, first: placed.first, rows: placed.rows }),
  };
}

/**
 * The rollout with sequences, encoded from its messages if it has no ids. Errors: `UserInputError` without a tokenizer.
 */
async function withSequences(
  outcome: OutcomeGroup['outcomes'][number],
  { name, tokenizer, removesReasoning, format }: ExportSettings,
  deps: Deps,
): Promise<SequencedRollout> {
  const rollout = await sequencedRollout(outcome, deps.store);
  if (!rollout.lacksIds || format === 'tinker') return rollout;
  if (tokenizer === undefined)
    throw new UserInputError(
      '--format',
      format,
      `${outcome.rollout} has no token ids (an endpoint was asked in chat, or a script was played): ` +
        'give --tokenizer DIR, or --format jsonl or parquet',
    );
  const { contexts } = await toldOf(outcome, name, deps);
  return { ...rollout, sequences: encodedFromText(contexts, tokenizer, removesReasoning) };
}

async function writeFormat(settings: ExportSettings, folder: string, deps: Deps): Promise<Tally> {
  const { format, name, fill, maxResponseTokens, padTokenId } = settings;
  const { store } = deps;
  if (format === 'jsonl' || format === 'parquet') {
    const writer = await (format === 'jsonl' ? jsonlWriter(folder) : parquetWriter(folder));
    const read = async (outcome: OutcomeGroup['outcomes'][number]): Promise<ToldRollout> => ({
      ...(await exportedRollout(outcome, store)),
      ...(await toldOf(outcome, name, deps)),
    });
    return writeGroups(settings, folder, writer, read, deps);
  }
  await refusePrunedTurns(name, store, PRUNED);
  const most = maxResponseTokens ?? Number.POSITIVE_INFINITY;
  const writer =
    format === 'skyrl'
      ? skyrlWriter(folder, { fill, maxResponseTokens: most })
      : format === 'verl'
        ? verlWriter(folder, { padTokenId, maxResponseTokens: most })
        : await tinkerWriter(folder);
  return writeGroups(settings, folder, writer, (outcome) => withSequences(outcome, settings, deps), deps);
}

/**
 * Errors: `UserInputError` for a folder that has files, for a run without rollouts, and for what the format cannot
 * hold;
 * `StoreCorrupt`.
 */
export async function exportRun(settings: ExportSettings, deps: Deps): Promise<ExportReport> {
  const { name, format, out } = settings;
  return writeFolder(out, async (folder) => {
    const { masked, files, groups, rollouts, leftOut, withoutRows, rows, rowsWithoutLogprobs } = await writeFormat(
      settings,
      folder,
      deps,
    );
    if (rollouts + leftOut === 0)
      throw new UserInputError(
        'RUN',
        name,
        'it has no ended rollouts of completed training steps yet: wait for a step',
      );
    const report = {
      run: name,
      format,
      groups,
      rollouts,
      masked,
      leftOut,
      withoutRows,
      rows,
      rowsWithoutLogprobs,
      files: [...files, 'rollouts.jsonl', 'export.json'].toSorted(),
    };
    await writeWhole(join(folder, 'export.json'), `${JSON.stringify(report, null, 2)}\n`);
    return report;
  });
}
