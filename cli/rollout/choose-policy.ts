/** The policy of a single rollout: a policy reference, as in evals, or an endpoint. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { findPolicy } from '../../activities/orchestrator/sweep/resolve-policy.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { DEFAULT_AGENT, DEFAULT_SAMPLING } from '../../protocol/rollout.ts';
import { modelUri } from '../../trainer/hub/hub-id.ts';
import { EMBEDDED } from '../../trainer/backends/registry.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { resolveEndpoint } from '../../workflows/rollout/resolve-policy.ts';
import { fileUri, pathOf, schemeOf } from '../../protocol/policy-uri.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { RolloutInput } from '../../protocol/rollout.ts';
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
  /** The policy's context length; the default if its config has none. */
  readonly maxContextTokens: number;
  /** Tokens that one turn may sample. */
  readonly maxTokens: number;
}

const FORMS = 'give starter, oracle, empty, RUN@STEP, latest:RUN, or a directory in Hugging Face layout';

async function positionsOf(dir: string): Promise<number> {
  const config = JSON.parse(await readFile(join(dir, 'config.json'), 'utf8')) as { max_position_embeddings?: number };
  return config.max_position_embeddings ?? DEFAULT_AGENT.maxContextTokens;
}

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

export interface ChosenReference extends ChosenPolicy {
  readonly policy: PolicyRef;
}

/** Errors: `UserInputError` for `option` if the name refers to no policy. */
export async function chooseReference(
  name: string,
  context: VerbContext,
  option = '--policy',
): Promise<ChosenReference> {
  const policy = await refOf(name, context, option);
  if (schemeOf(policy.uri) !== 'file')
    return { policy, maxContextTokens: DEFAULT_AGENT.maxContextTokens, maxTokens: DEFAULT_SAMPLING.maxTokens };
  try {
    const dir = pathOf(policy.uri, option);
    await readFile(join(dir, 'tokenizer.json'));
    const maxContextTokens = Math.min(DEFAULT_AGENT.maxContextTokens, await positionsOf(dir));
    const maxTokens = Math.min(DEFAULT_SAMPLING.maxTokens, Math.ceil(maxContextTokens / 4));
    return { policy, maxContextTokens, maxTokens };
  } catch (error) {
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
  return {
    policy: { endpoint },
    maxContextTokens: DEFAULT_AGENT.maxContextTokens,
    maxTokens: DEFAULT_SAMPLING.maxTokens,
  };
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
    const { maxContextTokens } = DEFAULT_AGENT;
    return {
      policy: { scripted: reference.scripted, version: 0 },
      maxContextTokens,
      maxTokens: DEFAULT_SAMPLING.maxTokens,
    };
  }
  if (policy !== undefined) throw new UserInputError('--policy', policy, 'give it or --endpoint, not both');
  return chooseEndpoint(options);
}
