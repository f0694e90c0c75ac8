/** `longhaul rollout`: one rollout, its turns shown as they happen. */

import { resolve } from 'node:path';
import type { Command } from 'commander';
import { checkLoaded } from '../../../config/open-tasks.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { messageWithPlace } from '../../../modules/own-frame.ts';
import { checkDeclaredJudges, judgesIn } from '../../../config/judges-schema.ts';
import { readSettings } from '../../../config/read-config.ts';
import { visible } from '../../../reports/visible.ts';
import { askedText } from '../../train/format.ts';
import type { RolloutInput } from '../../../protocol/rollout.ts';
import { loadModulesAt } from '../../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../../modules/bundle.ts';
import { JobFailed, UserInputError } from '../../../client/errors.ts';
import { newRolloutId } from '../../../client/longhaul.ts';
import { askedContextTokens, choosePolicy, type PolicyOptions } from '../../rollout/choose-policy.ts';
import { type RolloutEnd, runRollout } from '../../rollout/run-rollout.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../../verb.ts';

interface Options extends PolicyOptions {
  readonly task?: string;
  readonly modules?: readonly string[];
  readonly attach?: string;
  readonly seed: string;
  readonly temperature: string;
  readonly maxTurns: string;
  readonly maxContextTokens?: string;
  readonly maxTokens?: string;
  readonly judges?: string;
}

function temperatureOf(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= 0 && value <= 10) return value;
  throw new UserInputError('--temperature', text, 'give a number from 0 (greedy) to 10');
}

/** Bundled, and imported here. Errors: `UserInputError` for `--modules`. */
async function bundleOf({ modules }: Options, { cwd }: VerbContext): Promise<Bundle | undefined> {
  if (modules === undefined) return undefined;
  return loadModulesAt([...new Set(modules.map((path) => resolve(cwd, path)))]).catch((error: unknown) => {
    if (!(error instanceof UserInputError)) throw error;
    throw new UserInputError('--modules', error.value, error.remedy, { cause: error });
  });
}

async function judgesOf({ judges }: Options, { cwd }: VerbContext): Promise<Pick<RolloutInput, 'judges'>> {
  if (judges === undefined) return {};
  const path = resolve(cwd, judges);
  const found = judgesIn(await readSettings(path));
  if (found.judges === undefined)
    throw new UserInputError('--judges', path, 'give a configuration with judges: { NAME: { endpoint } }');
  return found;
}

/** Errors: `UserInputError` for an unknown task, and for one whose environment asks a judge that is not given. */
async function checkedTask(
  task: string | undefined,
  modules: Bundle | undefined,
  judges: RolloutInput['judges'],
): Promise<string> {
  if (task === undefined) throw new UserInputError('--task', undefined, 'give a task id such as swe-mini-held-out-0');
  try {
    const ref = { task, ...(modules && { modules: modules.digest }) };
    const loaded = await new TaskLoader().load(ref);
    checkLoaded(task, loaded.task, modules?.digest);
    checkDeclaredJudges([{ environment: loaded.source }], judges, modules?.digest);
    return task;
  } catch (error) {
    if (error instanceof UserInputError && error.field === 'judges')
      throw new UserInputError('--judges', error.value, `give a configuration file with them. ${error.remedy}`);
    throw new UserInputError('--task', task, `give a task id such as swe-mini-held-out-0 (${messageWithPlace(error)})`);
  }
}

async function inputOf(options: Options, modules: Bundle | undefined, context: VerbContext): Promise<RolloutInput> {
  const judged = await judgesOf(options, context);
  const task = await checkedTask(options.task, modules, judged.judges);
  const { policy, context: here, maxTokens } = await choosePolicy(options, context);
  const maxContextTokens = askedContextTokens(options.maxContextTokens, here) ?? here?.tokens;
  return {
    task,
    policy,
    ...judged,
    seed: wholeNumber('--seed', options.seed, 0),
    agent: {
      maxTurns: wholeNumber('--max-turns', options.maxTurns, 1),
      ...(maxContextTokens !== undefined && { maxContextTokens }),
    },
    sampling: {
      temperature: temperatureOf(options.temperature),
      maxTokens: options.maxTokens === undefined ? maxTokens : wholeNumber('--max-tokens', options.maxTokens, 1),
    },
  };
}

/** The reason of a failed rollout is in the error that follows. */
function endLines({ result, trajectory }: RolloutEnd): string[] {
  const { status, reward = 0, passed = false, failure, message, finish, turns, attempt } = result;
  const verdict =
    status === 'graded' ? `reward ${reward} (${passed ? 'passed' : 'not passed'})` : `failed: ${failure ?? 'internal'}`;
  const why = status === 'graded' ? (trajectory?.reason ?? message ?? '').trim() : '';
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  return [
    ...(trajectory?.asked ?? []).map((one) => visible(askedText(one))),
    '── verdict',
    `${verdict}${why === '' ? '' : `: ${why}`}`,
    `${turns} turns, finish: ${finish ?? 'none'}${again}`,
  ];
}

/** A rollout keeps its settings. Errors: `UserInputError` for options that were given with `--attach`. */
function refuseBeside(command: Command): void {
  const given = command.options.find(
    (option) =>
      !['attach', 'json'].includes(option.attributeName()) &&
      command.getOptionValueSource(option.attributeName()) === 'cli',
  );
  if (given === undefined) return;
  const value: unknown =
    given.attributeName() === 'apiKeyEnv' ? '(not shown)' : command.getOptionValue(given.attributeName());
  throw new UserInputError(
    given.long ?? given.flags,
    value,
    'leave it out: with --attach a rollout keeps the settings that it was started with',
  );
}

/** Errors: `JobFailed` for a rollout that could not be graded; `UserInputError` if its input is wrong. */
async function rolledOut(options: Options, context: VerbContext): Promise<Outcome> {
  const { attach } = options;
  const modules = await bundleOf(options, context);
  const input = attach === undefined ? await inputOf(options, modules, context) : undefined;
  const end = await runRollout(attach ?? newRolloutId(input?.task ?? ''), { input, modules }, context);
  for (const line of endLines(end)) context.say(line);
  const { status, failure = 'internal', message = '' } = end.result;
  if (status === 'graded') return { document: end };
  if (failure === 'bad-input') throw new UserInputError('rollout', end.rollout, message);
  throw new JobFailed(`rollout ${end.rollout} failed: ${failure}: ${message}`, end);
}

export const rolloutVerb: Verb = {
  define(command, run) {
    command
      .description('Starts one rollout and shows its turns as they happen, then the verdict; Ctrl-C leaves it running.')
      .option('--task <id>', 'task id, such as swe-mini-held-out-0')
      .option('--modules <files...>', 'modules that define the task or its tools; workers use them as they are now')
      .option('--policy <policy>', '`starter`, `RUN@STEP`, `latest:RUN`, or a directory in Hugging Face layout')
      .option('--endpoint <url>', "instead of --policy: a server with OpenAI's API, such as http://127.0.0.1:8000/v1")
      .option('--model <name>', "the model's name at the endpoint")
      .option(
        '--api-key-env <variable>',
        'name of the variable with its key in the environment of the gpu worker; ' +
          '$LONGHAUL_KEYS must list it for the address',
      )
      .option('--seed <n>', 'seed of the sampling noise', '0')
      .option('--temperature <t>', 'sampling temperature; 0: greedy', '1')
      .option('--max-turns <n>', 'largest number of turns', '30')
      .option(
        '--max-context-tokens <n>',
        'prompt, observations and sampled tokens together; default: the context length of the policy',
      )
      .option('--max-tokens <n>', 'tokens sampled in one turn; default: a quarter of the context')
      .option('--judges <config>', 'a configuration whose `judges` the task may ask')
      .option('--attach <id>', 'follow a rollout that was started before, instead of starting one')
      .action((options: Options) =>
        run((context) => {
          if (options.attach !== undefined) refuseBeside(command);
          return rolledOut(options, context);
        }),
      );
  },
};
