/**
 * A sweep's policies as written: by reference, or by an endpoint's settings. Each gets a name and its defaults. A key
 * in a wrong place is refused, and its value is never shown.
 */

import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import type { Endpoint } from '../protocol/endpoint.ts';
import type { SweepPolicy } from '../protocol/eval.ts';
import { resolveEndpoint } from '../workflows/rollout/resolve-policy.ts';
import type { GivenEndpoint } from '../protocol/policy.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { modelUri } from '../trainer/hub/hub-id.ts';
import { defaultPolicyName, parsePolicyReference } from './policy-reference.ts';

/** Used in workflow ids and folder names. */
const PART = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/;
export const part = z.string().regex(PART, 'give letters, digits, dot, dash, underscore and @, at most 100');

const FORMS =
  'give starter, oracle, empty, replay:RUN, RUN@STEP, latest:RUN or a directory, { name, policy } with one of ' +
  'them, or { name, endpoint: { baseUrl, model } }';
const FIELDS = ['name', 'policy', 'endpoint'];

export const policySchema = z.union(
  [
    z.string().min(1),
    z.strictObject({ name: part.optional(), policy: z.string().min(1) }),
    z.strictObject({ name: part.optional(), endpoint: z.custom<GivenEndpoint>(isObject) }),
  ],
  FORMS,
);

export type WrittenPolicy = z.infer<typeof policySchema>;

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The endpoint with its tokenizer's directory made absolute: a relative one starts at `folder`. */
export function placeEndpoint(endpoint: unknown, folder: string): unknown {
  const tokenizer = isObject(endpoint) ? endpoint['tokenizer'] : undefined;
  if (!isObject(endpoint) || typeof tokenizer !== 'string' || tokenizer === '' || isAbsolute(tokenizer))
    return endpoint;
  return { ...endpoint, tokenizer: resolve(folder, tokenizer) };
}

function endpointOf(given: unknown, field: string, cwd: string): Endpoint {
  return resolveEndpoint(placeEndpoint(given, cwd), field, (at, value, remedy) => {
    throw new UserInputError(at, value, remedy);
  });
}

/**
 * Checks policies before the schema does, since the schema's errors would show values that may contain a key.
 * Errors: `UserInputError` for the first invalid field.
 */
export function checkWrittenPolicies(given: unknown, cwd: string): void {
  const policies = isObject(given) ? given['policies'] : undefined;
  for (const [i, policy] of Array.isArray(policies) ? policies.entries() : []) {
    if (!isObject(policy)) continue;
    const field = `policies.${i}`;
    const unknown = Object.keys(policy).find((name) => !FIELDS.includes(name));
    if (unknown !== undefined) throw new UserInputError(`${field}.${unknown}`, '(not shown)', FORMS);
    if (!('endpoint' in policy)) continue;
    if (policy['policy'] !== undefined) throw new UserInputError(field, '{ policy, endpoint }', 'give one of the two');
    endpointOf(policy['endpoint'], `${field}.endpoint`, cwd);
  }
}

/** Relative directories start at `cwd`. Errors: `UserInputError` for an invalid endpoint. */
export function resolveWritten(written: WrittenPolicy, index: number, cwd: string): SweepPolicy {
  const given = typeof written === 'string' ? { policy: written } : written;
  if ('endpoint' in given) {
    const endpoint = endpointOf(given.endpoint, `policies.${index}.endpoint`, cwd);
    return { name: given.name ?? defaultPolicyName(`./${endpoint.model}`).slice(0, 100), endpoint };
  }
  const { policy } = given;
  const reference = parsePolicyReference(policy);
  const text = reference.kind === 'model' ? modelUri(policy, cwd) : policy;
  return { name: ('name' in given ? given.name : undefined) ?? defaultPolicyName(policy), policy: text };
}
