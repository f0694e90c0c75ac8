/**
 * A sweep's policies as they are written: by reference, or by an endpoint's settings. Each gets a name and its defaults;
 * a key that stands where it does not belong is refused, and never repeated.
 */

import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import type { Endpoint } from '../protocol/endpoint.ts';
import type { SweepPolicy } from '../protocol/eval.ts';
import { resolveEndpoint } from '../workflows/rollout/resolve-policy.ts';
import type { GivenEndpoint } from '../protocol/policy.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { defaultPolicyName, parsePolicyReference } from './policy-reference.ts';

/** Part of workflow ids and of folders. */
const PART = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/;
export const part = z.string().regex(PART, 'give letters, digits, dot, dash, underscore and @, at most 100');

const FORMS =
  'give starter, RUN@STEP, latest:RUN or a directory, { name, policy } with one of them, or { name, endpoint: { baseUrl, model } }';
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

/** With its tokenizer's directory taken from `folder`, where that is a relative one. */
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
 * Refuses what the schema would repeat as it stands, and somebody may have written a key into.
 * Errors: `UserInputError` for the first field that cannot be used.
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

/** Relative directories are taken from `cwd`. Errors: `UserInputError` for an endpoint that cannot be used. */
export function resolveWritten(written: WrittenPolicy, index: number, cwd: string): SweepPolicy {
  const given = typeof written === 'string' ? { policy: written } : written;
  if ('endpoint' in given) {
    const endpoint = endpointOf(given.endpoint, `policies.${index}.endpoint`, cwd);
    return { name: given.name ?? defaultPolicyName(`./${endpoint.model}`).slice(0, 100), endpoint };
  }
  const { policy } = given;
  const reference = parsePolicyReference(policy);
  const text = reference.kind === 'directory' && !isAbsolute(policy) ? resolve(cwd, policy) : policy;
  return { name: ('name' in given ? given.name : undefined) ?? defaultPolicyName(policy), policy: text };
}
