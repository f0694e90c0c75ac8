/** The first policy of a run: found once, checked with the settings of its backend, and named by a URI from then on. */

import { existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { checkBackendSettings } from '../../config/backend-settings.ts';
import { fileUri, schemeOf } from '../../protocol/policy-uri.ts';
import type { RunRecord } from '../../protocol/records.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { BackendAnswerWrong, BackendCalls, BackendFailed } from '../../trainer/backends/backend-calls.ts';
import type { BackendDefinition, PolicyDescription } from '../../trainer/backends/definition.ts';
import '../../endpoints/samplers/backend.ts';
import '../../endpoints/tinker/backend.ts';
import { backendNamed, backendOfUri, EMBEDDED } from '../../trainer/backends/registry.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { checkPolicyAdapter } from './check-adapter.ts';
import { checkCritic } from './check-critic.ts';
import { type DescribePolicy, describeModel } from './describe-model.ts';

const never = new AbortController().signal;

/**
 * The directory of a policy that is a path, a `file:` URI or a hub id. Errors: `UserInputError` for `field` unless it
 * is in Hugging Face layout; `ModelUnavailable`.
 */
export async function checkPolicy(policy: string, field = 'policy.base'): Promise<string> {
  const dir = await resolveModel(policy);
  for (const file of ['config.json', 'tokenizer.json']) {
    await access(join(dir, file)).catch(() => {
      const missing = existsSync(dir) ? '' : 'there is no such directory: ';
      const other = existsSync(dir) ? '' : ', or a hub id such as Qwen/Qwen3-0.6B';
      throw new UserInputError(
        field,
        dir,
        `${missing}give a directory with ${file}: a model in Hugging Face layout${other}`,
      );
    });
  }
  return dir;
}

/** The URI of a run's first policy. Errors: `UserInputError` for a base that the backend does not hold. */
async function baseOf(backend: BackendDefinition, base: string): Promise<string> {
  const { name, schemes } = backend;
  if (schemes.includes(schemeOf(base) ?? '')) return base;
  const isModel = EMBEDDED.schemes.includes(schemeOf(base) ?? 'file');
  const found = isModel ? await new BackendCalls(backend).resolve(base, never) : undefined;
  if (found !== undefined) return found;
  const own = schemes.map((scheme) => `${scheme}:`).join(', ');
  throw new UserInputError('policy.base', base, `give a URI with ${own}: backend ${name} holds no other policies`);
}

/** Errors that a backend gives for a policy that it does not have. An outage is another one, and is retried. */
const REFUSED = [BackendFailed, BackendAnswerWrong];

/** Errors: `UserInputError` for `field` if the backend cannot describe the policy. */
export async function describedBy(
  backend: BackendDefinition,
  uri: string,
  field = 'policy.base',
): Promise<PolicyDescription> {
  return new BackendCalls(backend).describe(uri, never).catch((error: unknown) => {
    if (!REFUSED.some((kind) => error instanceof kind)) throw error;
    const { message } = error as Error;
    throw new UserInputError(field, uri, `give a policy that backend ${backend.name} has (${message})`, {
      cause: error,
    });
  });
}

/** Errors: `UserInputError` for a scheme of another backend, or of none. */
function refuseOtherScheme(base: string, modules: ObjectRef | undefined): void {
  const other = backendOfUri(base, modules, 'policy.base');
  if (other === undefined) return;
  throw new UserInputError('policy.backend', EMBEDDED.name, `give ${other.name}, which holds ${base}`);
}

/**
 * The backend that the configuration names, after its settings were checked; `undefined` for the embedded one.
 * `modules`: digest of the run's modules, imported. Errors: `UserInputError` for the first setting that cannot be used.
 */
export function checkBackend(config: RunConfig, modules: ObjectRef | undefined): BackendDefinition | undefined {
  const { backend: name, base } = config.policy;
  const backend = backendNamed(name, modules);
  if (backend === undefined) refuseOtherScheme(base, modules);
  checkBackendSettings(backend ?? EMBEDDED, config);
  return backend;
}

/** Errors: `UserInputError` for a context that the model cannot have on any machine. */
function refuseLongContext({ policy, agent }: RunConfig, positions = Number.POSITIVE_INFINITY): void {
  const asked = {
    'policy.maxContextTokens': policy.maxContextTokens,
    'agent.maxContextTokens': agent.maxContextTokens,
  };
  for (const [field, tokens] of Object.entries(asked)) {
    if (tokens === undefined || tokens <= positions) continue;
    throw new UserInputError(
      field,
      tokens,
      `give at most ${positions}, max_position_embeddings of the policy's config.json`,
    );
  }
}

/** False if the run's temperature must stay above 0. */
export const canBeGreedy = ({ policy }: RunConfig, modules: ObjectRef | undefined): boolean =>
  (backendNamed(policy.backend, modules) ?? EMBEDDED).sampling.includes('greedy');

type OpenedPolicy = Pick<RunRecord, 'policy' | 'critic'>;

/** `known`: the run's record, if it has started before. Errors: `UserInputError`, `ModelUnavailable`, a backend's. */
export async function openPolicy(
  config: RunConfig,
  known: RunRecord | undefined,
  modules: ObjectRef | undefined,
  describePolicy: DescribePolicy,
): Promise<OpenedPolicy> {
  const backend = checkBackend(config, modules);
  // A hub's revision may move: the run continues with the snapshot that it started with.
  const given = known?.config?.policy.base === config.policy.base ? known.policy.base : config.policy.base;
  if (backend !== undefined) {
    const base = await baseOf(backend, given);
    const { parameters, vocabulary } = await describedBy(backend, base);
    return { policy: { base, parameters, vocabulary } };
  }
  const dir = await checkPolicy(given);
  if (!known) await checkPolicyAdapter('policy.lora', config.policy.lora, dir);
  const described = await describeModel('policy.base', dir, describePolicy);
  refuseLongContext(config, described.positions);
  const critic = await checkCritic(config, dir, described.vocabulary, describePolicy);
  return {
    policy: { base: fileUri(dir), ...described },
    ...(critic !== undefined && { critic: { base: fileUri(critic) } }),
  };
}
