/** `longhaul serve`: a policy behind OpenAI's API. */

import { UserInputError } from '../../client/errors.ts';
import { runServe } from '../run-serve.ts';
import { type Outcome, type Verb, type VerbContext, wholeNumber } from '../verb.ts';

interface Options {
  readonly model?: string;
  readonly servedName?: string;
  readonly host: string;
  readonly port: string;
  readonly apiKeyEnv?: string;
  readonly maxContextTokens?: string;
  readonly maxRequests: string;
  readonly timeoutSeconds: string;
  readonly graceSeconds: string;
  readonly tinker?: boolean;
}

async function serve(options: Options, context: VerbContext): Promise<Outcome> {
  const { model, servedName, host, apiKeyEnv } = options;
  if (options.tinker === true)
    throw new UserInputError('--tinker', true, 'leave it out: the Tinker API is not built yet');
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
    limits: {
      maxRequests: wholeNumber('--max-requests', options.maxRequests, 1, 100_000),
      timeoutSeconds: wholeNumber('--timeout-seconds', options.timeoutSeconds, 1, 86_400),
    },
    graceSeconds: wholeNumber('--grace-seconds', options.graceSeconds, 0, 3600),
  };
  return { document: await runServe(settings, context) };
}

export const serveVerb: Verb = {
  define(command, run) {
    command
      .description(
        "Serves a policy by OpenAI's API (completions, by text or token ids, and chat with tools) until SIGTERM or Ctrl-C; open requests then finish.",
      )
      .option('--model <policy>', '`starter`, `RUN@STEP`, `latest:RUN`, or a directory in Hugging Face layout')
      .option('--served-name <name>', "the model's name for clients; default: the last part of the policy's name")
      .option('--host <address>', 'address to listen on; any other than loopback requires --api-key-env', '127.0.0.1')
      .option('--port <port>', 'port to listen on; 0: any free port', '8000')
      .option('--api-key-env <variable>', 'name of the environment variable with the key that callers must send')
      .option('--max-context-tokens <n>', "prompt and answer together; default, and at most: the policy's context here")
      .option('--max-requests <n>', 'requests at once; further ones get status 429', '256')
      .option('--timeout-seconds <n>', 'time limit of one answer', '600')
      .option('--grace-seconds <n>', 'time that open requests have to finish when the server stops', '60')
      .option('--tinker', 'not built yet: refused')
      .action((options: Options) => run((context) => serve(options, context)));
  },
};
