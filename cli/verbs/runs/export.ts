/** `longhaul export`: the rollouts of a run or an eval as training data in others' formats. */

import { FORMATS, type FormatName } from '../../../reports/export/formats/format.ts';
import { type ExportReport, exportRun, type ExportSettings } from '../../../reports/export/export-run.ts';
import { checkFree } from '../../../reports/export/export-files.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { Interrupted, UserInputError } from '../../../client/errors.ts';
import { rolloutPrefixes } from '../../connect/rollout-prefixes.ts';
import { evalOf, localEval } from '../../eval/local-eval.ts';
import { type LocalStore, withLocalStore } from '../../connect/local-store.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';
import { resolve } from 'node:path';

interface Options {
  readonly format?: string;
  readonly out?: string;
  readonly step?: string;
  readonly validOnly?: boolean;
  readonly fill?: boolean;
  readonly maxResponseTokens?: string;
  readonly padTokenId?: string;
  readonly tokenizer?: string;
  readonly removeReasoning?: boolean;
}

/** The formats in which an option has an effect. */
const ONLY: ReadonlyArray<readonly [option: string, name: keyof Options, formats: readonly FormatName[]]> = [
  ['--fill', 'fill', ['skyrl']],
  ['--max-response-tokens', 'maxResponseTokens', ['skyrl', 'verl']],
  ['--pad-token-id', 'padTokenId', ['verl']],
  ['--tokenizer', 'tokenizer', ['skyrl', 'verl']],
  ['--remove-reasoning', 'removeReasoning', ['skyrl', 'verl']],
];

function formatOf({ format: given }: Options): FormatName {
  const format = FORMATS.find((name) => name === given);
  if (format === undefined) throw new UserInputError('--format', given ?? '', `give one of ${FORMATS.join(', ')}`);
  return format;
}

/** Errors: `UserInputError` for an option without effect, and for values that cannot be used. */
async function settingsOf(name: string, options: Options, { cwd }: VerbContext): Promise<ExportSettings> {
  const format = formatOf(options);
  const { out, step, maxResponseTokens, padTokenId, tokenizer, validOnly = false, fill = false } = options;
  if (out === undefined)
    throw new UserInputError('--out', '', 'give a folder that does not exist yet, or an empty one');
  for (const [option, key, formats] of ONLY)
    if (options[key] !== undefined && !formats.includes(format))
      throw new UserInputError(
        option,
        String(options[key]),
        `leave it out: it has an effect with ${formats.join(', ')}`,
      );
  if (options.removeReasoning && tokenizer === undefined)
    throw new UserInputError(
      '--remove-reasoning',
      'true',
      'give --tokenizer too: ids that were sampled stay as they are',
    );
  if (fill && validOnly)
    throw new UserInputError('--fill', 'true', 'leave it out, or leave out --valid-only: masked copies are not valid');
  return {
    name,
    format,
    out: resolve(cwd, out),
    ...(step !== undefined && { step: wholeNumber('--step', step, 1) }),
    validOnly,
    fill,
    ...(maxResponseTokens !== undefined && {
      maxResponseTokens: wholeNumber('--max-response-tokens', maxResponseTokens, 1),
    }),
    padTokenId: wholeNumber('--pad-token-id', padTokenId ?? '0', 0),
    ...(tokenizer !== undefined && { tokenizer: await tokenizerAt(resolve(cwd, tokenizer)) }),
    removesReasoning: options.removeReasoning ?? false,
  };
}

async function tokenizerAt(dir: string) {
  // Loaded here: most exports need none.
  const { loadTokenizer } = await import('../../../trainer/tokenizer/load-tokenizer.ts');
  return loadTokenizer(dir).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    throw new UserInputError('--tokenizer', dir, `give a policy's folder: ${why}`, { cause: error });
  });
}

/** Errors: `UserInputError` for a name or a step that does not exist. */
async function checkKnown({ name, step }: ExportSettings, local: LocalStore): Promise<void> {
  const id = evalOf(name);
  await (id === undefined ? local.summary(name) : localEval(id, local));
  await rolloutPrefixes(name, step === undefined ? undefined : String(step), local);
}

const counted = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([reason, count]) => `${reason} ${count}`)
    .join(', ');

function show(report: ExportReport, out: string, { say }: VerbContext): void {
  const { rollouts, groups, rows, masked, leftOut, withoutRows, rowsWithoutLogprobs, format } = report;
  say(`${out}: ${rollouts} rollouts of ${groups} groups, ${rows} rows as ${format}`);
  if (Object.keys(masked).length > 0)
    say(`masked: ${counted(masked)}${leftOut > 0 ? `; ${leftOut} rollouts are left out` : ''}`);
  if (withoutRows > 0) say(`${withoutRows} rollouts have no row: nothing was sampled in them`);
  if (rowsWithoutLogprobs > 0) say(`${rowsWithoutLogprobs} rows have no log-probabilities: nobody gave them`);
}

function exported(name: string, options: Options, context: VerbContext): Promise<Outcome> {
  return withLocalStore(context, async (local) => {
    const settings = await settingsOf(name, options, context);
    await checkKnown(settings, local);
    await checkFree(settings.out);
    const { store } = local;
    const { note, signal } = context;
    const report = await exportRun(settings, { store, tasks: new TaskLoader(store), note, signal }).catch(
      (error: unknown) => {
        if (!signal.aborted) throw error;
        throw new Interrupted('interrupted: nothing was written. The same command starts again', { cause: error });
      },
    );
    show(report, settings.out, context);
    return { document: { out: settings.out, ...report } };
  });
}

export const exportVerb: Verb = {
  define(command, run) {
    command
      .description(
        "Writes the rollouts of a run's completed training steps, or of an eval, as training data in another " +
          "project's format. " +
          'Masked rollouts are included with their mask and reason. Log-probabilities that nobody gave are ' +
          'never made up.',
      )
      .argument('<run>', 'name of the run, or eval/ID')
      .requiredOption('--format <name>', `one of ${FORMATS.join(', ')}`)
      .requiredOption('--out <dir>', 'the folder to make; an existing one must be empty')
      .option('--step <n>', 'only the rollouts of this training step')
      .option('--valid-only', 'leave out masked rollouts')
      .option('--fill', 'skyrl: a masked copy of another rollout of its group for each one without a turn')
      .option('--max-response-tokens <n>', 'skyrl, verl: cut longer responses')
      .option('--pad-token-id <id>', 'verl: fills up rows; it is masked everywhere (default: 0)')
      .option('--tokenizer <dir>', "skyrl, verl: a policy's folder, to encode rollouts that have no token ids")
      .option('--remove-reasoning', 'with --tokenizer: of all messages but a final one')
      .action((name: string, options: Options) => run((context) => exported(name, options, context)));
  },
};
