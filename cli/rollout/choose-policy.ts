/** The policy of a single rollout: a policy reference, as in evals, or an endpoint. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { findPolicy } from '../../activities/orchestrator/sweep/resolve-policy.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { DEFAULT_SAMPLING } from '../../protocol/rollout.ts';
import { modelUri } from '../../trainer/hub/hub-id.ts';
import { EMBEDDED } from '../../trainer/backends/registry.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { resolveEndpoint } from '../../workflows/rollout/resolve-policy.ts';
import { fileUri, pathOf, schemeOf } from '../../protocol/policy-uri.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { RolloutInput } from '../../protocol/rollout.ts';
import { contextBound, type PolicyContext } from '../../trainer/sampler/cache/cache-budget.ts';
import { contextIfReadable } from '../../config/policy-context.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { gpuDevices } from '../../workers/gpu-devices.ts';
import { surroundings } from '../connect/context-here.ts';
import { wholeNumber } from '../verb.ts';
import { withLocalStore } from '../connect/local-store.ts';
import { UserInputError } from '../../client/errors.ts';
import type { VerbContext } from '../verb.ts';

export interface PolicyOptions {
  readonly policy?: string;
  readonly endpoint?: string;
  readonly model?: string;
  readonly apiKeyEnv?: string;
}

export interface ChosenPolicy {
  readonly policy: RolloutInput['policy'];
  /** The policy's context here. Absent: it has no weights here, or its configuration cannot be read. */
  readonly context?: PolicyContext;
  /** Tokens that one turn may sample. */
  readonly maxTokens: number;
}

const FORMS = 'give starter, oracle, empty, RUN@STEP, latest:RUN, a directory in Hugging Face layout, or a URI';

/** A URI of another backend stays as it is: its module is known to the workers alone. */
const folderUri = async (uri: string): Promise<string> =>
  EMBEDDED.schemes.includes(schemeOf(uri) ?? '') ? fileUri(await resolveModel(uri)) : uri;

async function refOf(name: string, context: VerbContext, option: string): Promise<PolicyRef> {
  const reference = parsePolicyReference(name);
  if (reference.kind === 'starter') return { uri: fileUri(join(packageRoot, 'examples', 'starter')), version: 0 };
  if (reference.kind === 'model') return { uri: await folderUri(modelUri(name, context.cwd)), version: 0 };
  const { ref } = await withLocalStore(context, ({ store }) => findPolicy(name, option, store));
  if ('scripted' in ref) throw new UserInputError(option, name, 'give a policy with weights: a script has none');
  return ref;
}

/** `--max-context-tokens`: at most the policy's context; `undefined` if it was not given. Errors: `UserInputError`. */
export function askedContextTokens(text: string | undefined, context: PolicyContext | undefined): number | undefined {
  if (text === undefined) return undefined;
  const option = '--max-context-tokens';
  const tokens = wholeNumber(option, text, 2);
  if (context === undefined || tokens <= context.tokens) return tokens;
  throw new UserInputError(option, text, `give at most ${context.tokens}: ${contextBound(context)}`);
}

export interface ChosenReference extends ChosenPolicy {
  readonly policy: PolicyRef;
}

/** `env`: the engine's environment. Errors: `UserInputError` for `option` if there is no such policy. */
export async function chooseReference(
  name: string,
  context: VerbContext,
  option = '--policy',
  env = surroundings(context.env, stackHome(context.env, context.cwd)).env,
): Promise<ChosenReference> {
  const policy = await refOf(name, context, option);
  if (schemeOf(policy.uri) !== 'file') return { policy, maxTokens: DEFAULT_SAMPLING.maxTokens };
  try {
    const dir = pathOf(policy.uri, option);
    await readFile(join(dir, 'tokenizer.json'));
    const here = await contextIfReadable(dir, env, gpuDevices(env).length > 0);
    if (here === undefined) return { policy, maxTokens: DEFAULT_SAMPLING.maxTokens };
    const maxTokens = Math.min(DEFAULT_SAMPLING.maxTokens, Math.ceil(here.tokens / 4));
    return { policy, context: here, maxTokens };
  } catch (error) {
    if (error instanceof UserInputError) throw error;
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new UserInputError(option, name, `${FORMS} (${why})`);
  }
}

function chooseEndpoint({ endpoint: baseUrl, model, apiKeyEnv }: PolicyOptions): ChosenPolicy {
  const given = { baseUrl, model, ...(apiKeyEnv === undefined ? {} : { apiKeyEnv }) };
  const options: Readonly<Record<string, string>> = {
    baseUrl: '--endpoint',
    model: '--model',
    apiKeyEnv: '--api-key-env',
  };
  const endpoint = resolveEndpoint(given, 'endpoint', (field, value, remedy) => {
    throw new UserInputError(options[field.replace('endpoint.', '')] ?? field, value, remedy);
  });
  return { policy: { endpoint }, maxTokens: DEFAULT_SAMPLING.maxTokens };
}

/** Errors: `UserInputError` for a name without a policy, and for options that exclude each other. */
export async function choosePolicy(options: PolicyOptions, context: VerbContext): Promise<ChosenPolicy> {
  const { policy, endpoint } = options;
  if (endpoint === undefined) {
    if (options.model !== undefined) throw new UserInputError('--model', options.model, 'give --endpoint with it');
    if (options.apiKeyEnv !== undefined)
      throw new UserInputError('--api-key-env', '(not shown)', 'give --endpoint with it');
    if (policy === undefined) throw new UserInputError('--policy', undefined, FORMS);
    const reference = parsePolicyReference(policy);
    if (reference.kind !== 'scripted') return chooseReference(policy, context);
    return { policy: { scripted: reference.scripted, version: 0 }, maxTokens: DEFAULT_SAMPLING.maxTokens };
  }
  if (policy !== undefined) throw new UserInputError('--policy', policy, 'give it or --endpoint, not both');
  return chooseEndpoint(options);
}
