/**
 * `longhaul serve --tinker`: starts this folder's stack or attaches to it, and answers the Tinker API from its journal
 * until SIGTERM or Ctrl-C. The work is done by the stack's workers, so a server that is killed loses nothing.
 */

import { basename, resolve } from 'node:path';
import { UserInputError } from '../client/errors.ts';
import { Longhaul } from '../client/longhaul.ts';
import { storeUrl } from '../connection/store-url.ts';
import { pathOf } from '../protocol/policy-uri.ts';
import { LOOPBACK } from '../servers/http/admission.ts';
import type { HttpLimits } from '../servers/http/http-server.ts';
import type { ServedBase, TinkerQuotas } from '../servers/tinker/service.ts';
import { readKeys, type TenantKey } from '../servers/tinker/tenants.ts';
import { openTinkerBook } from '../servers/tinker/tinker-book.ts';
import { TinkerServer } from '../servers/tinker/tinker-server.ts';
import { ensureStack } from '../stack/ensure-stack.ts';
import { readModelConfig } from '../trainer/model/describe-policy.ts';
import { loadTokenizer } from '../trainer/tokenizer/load-tokenizer.ts';
import { askedContextTokens, chooseReference } from './rollout/choose-policy.ts';
import { listeningOr, type Served, type ServeSettings } from './run-serve.ts';
import type { VerbContext } from './verb.ts';

export interface TinkerSettings extends Omit<ServeSettings, 'limits'> {
  readonly limits: Partial<Pick<HttpLimits, 'maxRequests'>>;
  readonly quotas: Partial<TinkerQuotas>;
}

/** Errors: `UserInputError` if the variable has no key, or if the address is not loopback and there is no variable. */
function keysOf({ host, apiKeyEnv }: TinkerSettings, env: NodeJS.ProcessEnv): readonly TenantKey[] | undefined {
  if (apiKeyEnv === undefined) {
    if (LOOPBACK.has(host)) return undefined;
    const remedy = 'other machines can reach this address: set --api-key-env to the name of a variable with keys';
    throw new UserInputError('--host', host, remedy);
  }
  const keys = readKeys(env[apiKeyEnv] ?? '', '--api-key-env');
  if (keys.length > 0) return keys;
  throw new UserInputError('--api-key-env', '(not shown)', 'give the name of a variable that holds at least one key');
}

/**
 * Clients load the tokenizer by the model's name where they have nothing else, so that the directory is its name. The
 * SDK takes a name with exactly two slashes for `ORGANISATION/MODEL/VARIANT` and drops the last part.
 */
const nameOf = (dir: string): string => (dir.split('/').length === 3 ? `${dir}/` : dir);

/** Errors: `UserInputError` for a policy that adapters cannot be trained on. */
async function baseOf(settings: TinkerSettings, context: VerbContext): Promise<ServedBase> {
  const { model, servedName, maxContextTokens } = settings;
  const chosen = await chooseReference(model, context, '--model', context.env);
  const dir = resolve(pathOf(chosen.policy.uri, '--model'));
  try {
    const [config] = await Promise.all([readModelConfig(dir), loadTokenizer(dir)]);
    const contextTokens =
      askedContextTokens(maxContextTokens, chosen.context) ?? chosen.context?.tokens ?? config.maxPositions;
    const name = servedName ?? nameOf(dir);
    const aliases = [model, dir, nameOf(dir), basename(dir)];
    return { name, aliases, dir, architecture: config.family, vocabSize: config.vocabSize, contextTokens };
  } catch (error) {
    if (error instanceof UserInputError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new UserInputError('--model', model, `give a policy with a configuration and a tokenizer (${why})`);
  }
}

/** Errors: `UserInputError`; `Unreachable` if the stack does not start. */
export async function runServeTinker(settings: TinkerSettings, context: VerbContext): Promise<Served> {
  const keys = keysOf(settings, context.env);
  const base = await baseOf(settings, context);
  const { host, port, limits, quotas, graceSeconds } = settings;
  const onFailure = (error: unknown, requestId: string) =>
    context.note(`request ${requestId} failed: ${error instanceof Error ? error.message : String(error)}`);
  const options = { host, port, limits, quotas, onFailure, ...(keys === undefined ? {} : { keys }) };
  const server = await listeningOr(() => TinkerServer.start(options), settings);
  try {
    context.note(`listening on ${new URL(server.url).host}`);
    const say = (line: string) => context.note(line);
    const { stateDir, namespace } = await ensureStack({ say, signal: context.signal, env: context.env });
    const longhaul = await Longhaul.connect({ home: stateDir, namespace });
    try {
      const { client } = longhaul;
      const book = await openTinkerBook({ store: storeUrl(stateDir), client, bases: [base], say });
      try {
        server.open({ journal: book, bases: [base] });
        context.note(
          `Tinker API at ${server.url}: ${base.name}, ${base.contextTokens} tokens of context, ` +
            `${keys === undefined ? 'for callers on this machine' : 'key required'}`,
        );
        const ended = Promise.withResolvers<undefined>();
        context.signal.addEventListener('abort', () => ended.resolve(undefined), { once: true });
        if (!context.signal.aborted) await ended.promise;
        context.note('stopping: what was accepted is done by the stack');
        await server.close(graceSeconds * 1000);
        return { model: base.name, baseUrl: server.url, requests: server.answered };
      } finally {
        await server.close(0);
        await book.close();
      }
    } finally {
      await longhaul.close();
    }
  } finally {
    await server.close(0);
  }
}
