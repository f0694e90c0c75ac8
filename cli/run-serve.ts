/** `longhaul serve`: loads a policy into its own engine, and answers requests until SIGTERM or Ctrl-C. */

import { basename } from 'node:path';
import { createEmbeddedEngine, EngineLost } from '../trainer/embedded/embedded-engine.ts';
import { fingerprintOf } from '../trainer/checkpoints/policy-files.ts';
import { pathOf } from '../protocol/policy-uri.ts';
import type { ChatModel } from '../servers/openai/answer-turn.ts';
import { LOOPBACK } from '../servers/http/admission.ts';
import type { HttpLimits } from '../servers/http/http-server.ts';
import { ApiServer, type ApiServerOptions } from '../servers/openai/api-server.ts';
import { loadTokenizer } from '../trainer/tokenizer/load-tokenizer.ts';
import { JobFailed, UserInputError } from '../client/errors.ts';
import { askedContextTokens, chooseReference } from './rollout/choose-policy.ts';
import type { VerbContext } from './verb.ts';

export interface ServeSettings {
  /** In any form that `rollout --policy` accepts. */
  readonly model: string;
  /** The model's name for clients. Default: the last part of `model`. */
  readonly servedName?: string;
  readonly host: string;
  readonly port: number;
  readonly apiKeyEnv?: string;
  /** As it was given. Default: the policy's context here. */
  readonly maxContextTokens?: string;
  readonly limits: Pick<HttpLimits, 'maxRequests' | 'timeoutSeconds'>;
  /** Time that open requests have to finish when the server stops. */
  readonly graceSeconds: number;
}

export interface Served {
  readonly model: string;
  readonly baseUrl: string;
  readonly requests: number;
}

/** Errors: `UserInputError` if the variable is not set, or if the address is not loopback and there is no key. */
export function keyOf(
  { host, apiKeyEnv }: Pick<ServeSettings, 'host' | 'apiKeyEnv'>,
  env: NodeJS.ProcessEnv,
): string | undefined {
  if (apiKeyEnv === undefined) {
    if (LOOPBACK.has(host)) return undefined;
    throw new UserInputError(
      '--host',
      host,
      'other machines can reach this address: set --api-key-env to the name of a variable that holds a key',
    );
  }
  const key = env[apiKeyEnv];
  // The value may be a key that was given by mistake.
  if (!key)
    throw new UserInputError(
      '--api-key-env',
      '(not shown)',
      'give the name of an environment variable that holds the key',
    );
  return key;
}

/** For a policy whose configuration cannot be read: loading it says why. */
const LEAST_CONTEXT = 2;

type Chosen = Awaited<ReturnType<typeof chooseReference>>;

/** Samples one token, so that a policy that cannot be loaded fails before the first request. */
async function loaded({ model, servedName, maxContextTokens }: ServeSettings, chosen: Chosen): Promise<ChatModel> {
  const { uri, version } = chosen.policy;
  const dir = pathOf(uri, '--model');
  const contextTokens = askedContextTokens(maxContextTokens, chosen.context) ?? chosen.context?.tokens ?? LEAST_CONTEXT;
  const engine = await createEmbeddedEngine({ maxContext: contextTokens });
  try {
    const tokenizer = await loadTokenizer(dir);
    const policy = { dir, version, digest: await fingerprintOf(dir) };
    const sampling = { temperature: 0, topP: 1, topK: 0, maxTokens: 1 };
    const tokens = tokenizer.stopTokenIds.slice(0, 1);
    await engine.generate({ policy, cacheKey: 'first', noiseKey: 'first', tokens, sampling, stopTokenIds: [] });
    return { name: servedName ?? basename(model), engine, policy, tokenizer, contextTokens };
  } catch (error) {
    await engine.close();
    throw new UserInputError(
      '--model',
      model,
      `give a policy that the embedded engine can load (${error instanceof Error ? error.message : String(error)})`,
      { cause: error },
    );
  }
}

const PORT_REMEDIES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens on this port: give another one (0: any free port), or stop that process',
  EACCES: 'this account may not listen on this port: give one above 1023 (0: any free port)',
};

/** Errors: `UserInputError` for an address that cannot be listened on. */
export async function listeningOr<T>(
  start: () => Promise<T>,
  options: Pick<ServeSettings, 'host' | 'port'>,
): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    const remedy = PORT_REMEDIES[code];
    if (remedy !== undefined) throw new UserInputError('--port', options.port, remedy, { cause: error });
    throw new UserInputError('--host', options.host, `give an address that this process can listen on (${code})`, {
      cause: error,
    });
  }
}

/**
 * Serves until the context's signal fires; then open requests finish. It listens before it loads the policy: a port
 * that is in use fails at once, and early requests get 503.
 * Errors: `UserInputError`; `JobFailed` when the engine is lost.
 */
export async function runServe(settings: ServeSettings, context: VerbContext): Promise<Served> {
  const apiKey = keyOf(settings, context.env);
  const chosen = await chooseReference(settings.model, context, '--model', context.env);
  const lost = Promise.withResolvers<EngineLost>();
  const onFailure = (error: unknown, requestId: string) => {
    context.note(`request ${requestId} failed: ${error instanceof Error ? error.message : String(error)}`);
    if (error instanceof EngineLost) lost.resolve(error);
  };
  const { host, port, limits, graceSeconds } = settings;
  const options: ApiServerOptions = { host, port, limits, onFailure, ...(apiKey === undefined ? {} : { apiKey }) };
  const server = await listeningOr(() => ApiServer.start(options), options);
  const { baseUrl } = server;
  let model: ChatModel | undefined;
  try {
    context.note(`listening on ${new URL(baseUrl).host}; loading ${settings.model}`);
    model = await loaded(settings, chosen);
    server.open(model);
    context.note(
      `${model.name} at ${baseUrl}, ${model.contextTokens} tokens of context, ` +
        `${apiKey === undefined ? 'for callers on this machine' : 'key required'}`,
    );
    const ended = Promise.withResolvers<undefined>();
    context.signal.addEventListener('abort', () => ended.resolve(undefined), { once: true });
    if (context.signal.aborted) ended.resolve(undefined);
    const failure = await Promise.race([ended.promise, lost.promise]);
    context.note('stopping: open requests finish');
    await server.close(graceSeconds * 1000);
    if (failure) throw new JobFailed(`the engine is lost: ${failure.message}`, undefined, { cause: failure });
    return { model: model.name, baseUrl, requests: server.answered };
  } finally {
    await server.close(0);
    await model?.engine.close();
  }
}
