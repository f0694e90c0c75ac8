/** `longhaul up`: starts the stack. Attached, it shows the supervisor's log until Ctrl-C, then drains and stops all. */

import { join } from 'node:path';
import { Interrupted, UserInputError } from '../../../client/errors.ts';
import { followFile } from '../../follow-file.ts';
import { POOL_VARIABLE } from '../../../workers/gpu-pool.ts';
import { readableLine } from '../../../workers/logs/readable-log.ts';
import { ensureStack, type RunningStack } from '../../../stack/ensure-stack.ts';
import { listProcesses } from '../../../stack/processes/list-processes.ts';
import { gpuWorkers } from '../../../stack/stack-plan.ts';
import { ROLES_VARIABLE, stackSettings } from '../../../stack/stack-settings.ts';
import { stackHome, stackPaths, supervisorLog } from '../../../connection/stack-paths.ts';
import { stopStack } from '../../../stack/stop-stack.ts';
import { RETENTION_VARIABLE } from '../../../stack/temporal-server/retention.ts';
import type { Verb, VerbContext } from '../../verb.ts';

interface Options {
  readonly detach?: boolean;
  readonly roles?: string;
  readonly gpuWorkers?: string;
  readonly retention?: string;
}

/** Variables of the environment, and the options that override them. */
const VARIABLES: Readonly<Record<string, keyof Options>> = {
  [ROLES_VARIABLE]: 'roles',
  [POOL_VARIABLE]: 'gpuWorkers',
  [RETENTION_VARIABLE]: 'retention',
};

export const up: Verb = {
  define(command, run) {
    command
      .description(
        'Starts the Temporal server (unless TEMPORAL_ADDRESS or a Temporal profile names a cluster) and the ' +
          'workers, and keeps ' +
          'them alive. State and logs: $LONGHAUL_HOME, default .longhaul in the working directory.',
      )
      .option('-d, --detach', 'return when all are ready, and leave the stack running (implied by --json)')
      .option('--roles <list>', 'only these workers, separated by commas')
      .option(
        '--gpu-workers <pool>',
        'how many GPU workers, or what each does: both, generate, train, separated by commas (default: ' +
          'one for each device)',
      )
      .option(
        '--retention <time>',
        'how long Temporal keeps the histories of closed workflows, in hours or days (36h, 3d; default: 1d, least: 1h)',
      )
      .action((options: Options) => run((context) => bringUp(options, context)));
  },
};

async function bringUp(options: Options, context: VerbContext) {
  const said = Object.entries(VARIABLES).flatMap(([variable, option]) =>
    options[option] === undefined ? [] : [[variable, String(options[option])]],
  );
  const env: NodeJS.ProcessEnv = { ...context.env, ...Object.fromEntries(said) };
  const home = stackHome(context.env, context.cwd);
  const stack = await asOptions(options, async () => {
    stackSettings(env, context.cwd);
    gpuWorkers(env);
    return ensureStack({ home, env, say: context.note, signal: context.signal });
  }).catch((error: unknown) => {
    if (!context.signal.aborted) throw error;
    throw new Interrupted(
      'interrupted while the stack was starting; it is still starting. See it with: npx longhaul ps; ' +
        'stop it with: npx longhaul down',
      { cause: error },
    );
  });
  printStack(stack, context);
  const document = { ...stack, processes: listProcesses(home).processes };
  if (stack.started && options.detach !== true && !context.json) await attach(home, context);
  return { document };
}

/** Errors name the option that the user gave, not the variable that it overrides. */
async function asOptions<T>(options: Options, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    const option = error instanceof UserInputError ? VARIABLES[error.field] : undefined;
    if (!(error instanceof UserInputError) || option === undefined || options[option] === undefined) throw error;
    const flag = `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    throw new UserInputError(flag, error.value, error.remedy, { cause: error });
  }
}

function printStack(stack: RunningStack, { say }: VerbContext): void {
  say(stack.started ? 'the stack is up' : 'the stack was up already');
  say(`  Temporal   ${stack.address}, namespace ${stack.namespace}`);
  if (stack.ui !== '') say(`  UI         ${stack.ui}`);
  say(`  logs       ${join(stack.stateDir, 'logs')}`);
}

/** Shows the supervisor's log until interrupted, then stops the stack. Errors: `Interrupted`, always. */
async function attach(home: string, context: VerbContext): Promise<never> {
  context.say('Ctrl-C drains and stops the stack; running work continues after the next up');
  await followFile(supervisorLog(stackPaths(home)), (line) => context.say(readableLine(line)), context.signal);
  context.note('draining');
  await stopStack({ home });
  throw new Interrupted('the stack is down; running work continues after: npx longhaul up');
}
