/** `longhaul serve`: loads a policy into an engine of its own, and answers for it until it is told to end. */

import { basename } from 'node:path';
import { createEmbeddedEngine, EngineLost } from '../trainer/embedded/embedded-engine.ts';
import { fingerprintOf } from '../trainer/checkpoints/policy-files.ts';
import type { ChatModel } from '../servers/openai/chat-completions.ts';
import { ApiServer, LOOPBACK, type ServerLimits } from '../servers/openai/http-server.ts';
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
  readonly limits: Pick<ServerLimits, 'maxRequests' | 'timeoutSeconds'>;
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

/** The engine is asked once, so that a policy that cannot be loaded is found before anybody waits for it. */
async function loaded(
  { model, servedName, maxContextTokens }: ServeSettings,
  context: VerbContext,
): Promise<ChatModel> {
  const chosen = await chooseReference(model, context, '--model');
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

async function listening(options: Parameters<typeof ApiServer.start>[0]): Promise<ApiServer> {
  try {
    return await ApiServer.start(options);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isPort = code === 'EADDRINUSE' || code === 'EACCES';
    throw new UserInputError(
      isPort ? '--port' : '--host',
      isPort ? options.port : options.host,
      `give one that this process can listen on (${code ?? String(error)})`,
      { cause: error },
    );
  }
}

/**
 * Until the context's signal fires; then what is under way finishes.
 * Errors: `UserInputError`; `JobFailed` when the engine is lost.
 */
export async function runServe(settings: ServeSettings, context: VerbContext): Promise<Served> {
  const apiKey = keyOf(settings, context.env);
  const model = await loaded(settings, context);
  const lost = Promise.withResolvers<EngineLost>();
  const onFailure = (error: unknown) => {
    context.note(`a request failed: ${error instanceof Error ? error.message : String(error)}`);
    if (error instanceof EngineLost) lost.resolve(error);
  };
  try {
    const { host, port, limits, graceSeconds } = settings;
    const server = await listening({
      model,
      host,
      port,
      limits,
      onFailure,
      ...(apiKey === undefined ? {} : { apiKey }),
    });
    const { baseUrl } = server;
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
    await model.engine.close();
  }
}
