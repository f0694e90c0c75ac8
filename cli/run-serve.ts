/** `longhaul serve`: loads a policy into an engine of its own, and answers for it until it is told to end. */

import { basename } from 'node:path';
import { createEmbeddedEngine, EngineLost } from '../trainer/embedded/embedded-engine.ts';
import { fingerprintOf } from '../trainer/checkpoints/policy-files.ts';
import type { ChatModel } from '../servers/openai/chat-completions.ts';
import { LOOPBACK } from '../servers/http/admission.ts';
import type { HttpLimits } from '../servers/http/http-server.ts';
import { ApiServer, type ApiServerOptions } from '../servers/openai/api-server.ts';
import { loadTokenizer } from '../trainer/tokenizer/load-tokenizer.ts';
import { JobFailed, UserInputError } from '../client/errors.ts';
import { chooseReference } from './rollout/choose-policy.ts';
import type { VerbContext } from './verb.ts';

export interface ServeSettings {
  /** As `rollout --policy` takes it. */
  readonly model: string;
  /** What clients call it; absent: the last part of its name. */
  readonly servedName?: string;
  readonly host: string;
  readonly port: number;
  readonly apiKeyEnv?: string;
  readonly maxContextTokens: number;
  readonly limits: Pick<HttpLimits, 'maxRequests' | 'timeoutSeconds'>;
  /** For what is under way when it ends. */
  readonly graceSeconds: number;
}

export interface Served {
  readonly model: string;
  readonly baseUrl: string;
  readonly requests: number;
}

/** Errors: `UserInputError` for a variable that is not set, and for an open address without a key. */
export function keyOf(
  { host, apiKeyEnv }: Pick<ServeSettings, 'host' | 'apiKeyEnv'>,
  env: NodeJS.ProcessEnv,
): string | undefined {
  if (apiKeyEnv === undefined) {
    if (LOOPBACK.has(host)) return undefined;
    throw new UserInputError(
      '--host',
      host,
      'name the variable that holds a key by --api-key-env: others than this machine can reach that address',
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

type Chosen = Awaited<ReturnType<typeof chooseReference>>;

/** The engine is asked once, so that a policy that cannot be loaded is found before anybody waits for it. */
async function loaded({ model, servedName, maxContextTokens }: ServeSettings, chosen: Chosen): Promise<ChatModel> {
  const { dir, version } = chosen.policy;
  const contextTokens = Math.min(maxContextTokens, chosen.maxContextTokens);
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
  EADDRINUSE: 'another process listens on it: give another one (0: any that is free), or stop that process',
  EACCES: 'this account may not listen on it: give one above 1023 (0: any that is free)',
};

async function listening(options: ApiServerOptions): Promise<ApiServer> {
  try {
    return await ApiServer.start(options);
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    const remedy = PORT_REMEDIES[code];
    if (remedy !== undefined) throw new UserInputError('--port', options.port, remedy, { cause: error });
    throw new UserInputError('--host', options.host, `give one that this process can listen on (${code})`, {
      cause: error,
    });
  }
}

/**
 * Until the context's signal fires; then what is under way finishes. It listens before it loads the policy: a port that
 * is taken is found at once, and callers who come early are told to ask again.
 * Errors: `UserInputError`; `JobFailed` when the engine is lost.
 */
export async function runServe(settings: ServeSettings, context: VerbContext): Promise<Served> {
  const apiKey = keyOf(settings, context.env);
  const chosen = await chooseReference(settings.model, context, '--model');
  const lost = Promise.withResolvers<EngineLost>();
  const onFailure = (error: unknown, requestId: string) => {
    context.note(`request ${requestId} failed: ${error instanceof Error ? error.message : String(error)}`);
    if (error instanceof EngineLost) lost.resolve(error);
  };
  const { host, port, limits, graceSeconds } = settings;
  const server = await listening({ host, port, limits, onFailure, ...(apiKey === undefined ? {} : { apiKey }) });
  const { baseUrl } = server;
  let model: ChatModel | undefined;
  try {
    context.note(`listening on ${new URL(baseUrl).host}; loading ${settings.model}`);
    model = await loaded(settings, chosen);
    server.open(model);
    context.note(
      `${model.name} at ${baseUrl}, ${model.contextTokens} tokens of context, ${apiKey === undefined ? 'for callers of this machine' : 'behind a key'}`,
    );
    const ended = Promise.withResolvers<undefined>();
    context.signal.addEventListener('abort', () => ended.resolve(undefined), { once: true });
    if (context.signal.aborted) ended.resolve(undefined);
    const failure = await Promise.race([ended.promise, lost.promise]);
    context.note('ending: what is under way finishes');
    await server.close(graceSeconds * 1000);
    if (failure) throw new JobFailed(`the engine is lost: ${failure.message}`, undefined, { cause: failure });
    return { model: model.name, baseUrl, requests: server.answered };
  } finally {
    await server.close(0);
    await model?.engine.close();
  }
}
