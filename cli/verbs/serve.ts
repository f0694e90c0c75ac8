/** `longhaul serve`: a policy behind OpenAI's API, or a base behind the Tinker API. */

import { UserInputError } from '../../client/errors.ts';
import type { TinkerQuotas } from '../../servers/tinker/service.ts';
import { runServe } from '../run-serve.ts';
import { runServeTinker } from '../run-serve-tinker.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../verb.ts';

interface Options {
  readonly model?: string;
  readonly servedName?: string;
  readonly host: string;
  readonly port: string;
  readonly apiKeyEnv?: string;
  readonly maxContextTokens?: string;
  readonly maxRequests?: string;
  readonly timeoutSeconds?: string;
  readonly maxWaiting?: string;
  readonly maxModels?: string;
  readonly maxCheckpointGib?: string;
  readonly graceSeconds: string;
  readonly tinker?: boolean;
}

const QUOTAS = { maxWaiting: '--max-waiting', maxModels: '--max-models', maxCheckpointGib: '--max-checkpoint-gib' };

/** An option that would have no effect is refused. Errors: `UserInputError`. */
function refuseOthers(options: Options, isTinker: boolean): void {
  if (isTinker && options.timeoutSeconds !== undefined)
    throw new UserInputError('--timeout-seconds', options.timeoutSeconds, 'leave it out with --tinker');
  if (isTinker) return;
  for (const [name, option] of Object.entries(QUOTAS)) {
    const value = options[name as keyof typeof QUOTAS];
    if (value !== undefined) throw new UserInputError(option, value, 'give --tinker with it');
  }
}

const numberIf = (option: string, text: string | undefined): number | undefined =>
  text === undefined ? undefined : wholeNumber(option, text, 1, 1_000_000);

/** Without what was not given. */
const defined = <T extends object>(values: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };

function quotasOf(options: Options): Partial<TinkerQuotas> {
  const gib = numberIf(QUOTAS.maxCheckpointGib, options.maxCheckpointGib);
  return defined({
    waiting: numberIf(QUOTAS.maxWaiting, options.maxWaiting),
    models: numberIf(QUOTAS.maxModels, options.maxModels),
    checkpointBytes: gib === undefined ? undefined : gib * 2 ** 30,
  });
}

async function serve(options: Options, context: VerbContext): Promise<Outcome> {
  const { model, servedName, host, apiKeyEnv } = options;
  if (model === undefined)
    throw new UserInputError(
      '--model',
      undefined,
      'give starter, RUN@STEP, latest:RUN, or a directory in Hugging Face layout',
    );
  const settings = {
    model,
    ...(servedName === undefined ? {} : { servedName }),
    host,
    port: wholeNumber('--port', options.port, 0, 65_535),
    ...(apiKeyEnv === undefined ? {} : { apiKeyEnv }),
    ...(options.maxContextTokens !== undefined && { maxContextTokens: options.maxContextTokens }),
    graceSeconds: wholeNumber('--grace-seconds', options.graceSeconds, 0, 3600),
  };
  const isTinker = options.tinker === true;
  refuseOthers(options, isTinker);
  const maxRequests = numberIf('--max-requests', options.maxRequests);
  if (isTinker) {
    const quotas = quotasOf(options);
    return { document: await runServeTinker({ ...settings, quotas, limits: defined({ maxRequests }) }, context) };
  }
  const limits = {
    maxRequests: maxRequests ?? 256,
    timeoutSeconds: wholeNumber('--timeout-seconds', options.timeoutSeconds ?? '600', 1, 86_400),
  };
  return { document: await runServe({ ...settings, limits }, context) };
}

export const serveVerb: Verb = {
  define(command, run) {
    command
      .description(
        "Serves a policy by OpenAI's API (completions, by text or token ids, and chat with tools) until " +
          'SIGTERM or Ctrl-C; open requests then finish.',
      )
      .option('--model <policy>', '`starter`, `RUN@STEP`, `latest:RUN`, or a directory in Hugging Face layout')
      .option('--served-name <name>', "the model's name for clients; default: the last part of the policy's name")
      .option('--host <address>', 'address to listen on; any other than loopback requires --api-key-env', '127.0.0.1')
      .option('--port <port>', 'port to listen on; 0: any free port', '8000')
      .option('--api-key-env <variable>', 'name of the environment variable with the key that callers must send')
      .option('--max-context-tokens <n>', "prompt and answer together; default, and at most: the policy's context here")
      .option('--max-requests <n>', 'requests at once; further ones get status 429; default: 256, with --tinker 4096')
      .option('--timeout-seconds <n>', 'time limit of one answer; default: 600')
      .option('--grace-seconds <n>', 'time that open requests have to finish when the server stops', '60')
      .option('--tinker', "serves the Tinker API for adapters on this policy instead, by this folder's stack")
      .option('--max-waiting <n>', 'with --tinker: samples of a key that may wait, and other requests; default: 4096')
      .option('--max-models <n>', 'with --tinker: models of a key; default: 256')
      .option('--max-checkpoint-gib <n>', 'with --tinker: GiB of checkpoints of a key; default: 64')
      .action((options: Options) => run((context) => serve(options, context)));
  },
};
