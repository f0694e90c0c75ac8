/**
 * A rollout's policy with every default filled in: a URI, or an endpoint. Pure; the caller's `refuse` rejects
 * what cannot be used. A key that was given by mistake is never printed.
 */

import type { Endpoint } from '../../protocol/endpoint.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { RolloutPolicy } from '../../protocol/policy.ts';
import { didYouMean } from '../../protocol/closest.ts';
import { schemeOf } from '../../protocol/policy-uri.ts';

/** Throws. `value` must be safe to print. */
export type Refuse = (field: string, value: unknown, remedy: string) => never;

/** A check of a setting's value, and the remedy if the check fails. */
type Rule = readonly [holds: (value: unknown) => boolean, remedy: string];

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const oneOf = (names: readonly string[]): Rule => [
  (value) => isText(value) && names.includes(value),
  `give ${names.join(', ')}`,
];
const count: Rule = [(value) => Number.isSafeInteger(value) && Number(value) >= 1, 'give a whole number of at least 1'];
const plainObject: Rule = [
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'give fields and values',
];
const positive: Rule = [(value) => typeof value === 'number' && value > 0, 'give a number above 0'];
/** A timer of JavaScript holds less than 25 days. */
const timer: Rule = [
  (value) => typeof value === 'number' && value > 0 && value <= 1_000_000,
  'give a number of seconds above 0, at most 1000000',
];

const isDollars = (value: unknown): boolean => typeof value === 'number' && value >= 0 && Number.isFinite(value);

function isPrice(value: unknown): boolean {
  if (!isObject(value) || Object.keys(value).length !== 2) return false;
  return isDollars(value['prompt']) && isDollars(value['sampled']);
}

const MEANINGS = ['stop', 'length', 'filtered'];

function isFinishWords(value: unknown): boolean {
  return isObject(value) && Object.values(value).every((meaning) => isText(meaning) && MEANINGS.includes(meaning));
}

/** API keys whose form would also be valid as the name of a variable. */
const KEY = /^(hf|gsk|nvapi|xai|sk|rpa|pplx)_\w{16,}$/;

const RULES: Readonly<Record<keyof Endpoint, Rule>> = {
  baseUrl: [
    (value) => isText(value) && /^https?:\/\/[^/\s?#]+[^\s?#]*$/.test(value),
    'give an address such as http://127.0.0.1:8000/v1, without a query',
  ],
  model: [isText, 'give the name that the server knows the model by'],
  mode: oneOf(['tokens', 'chat', 'auto']),
  protocol: oneOf(['vllm', 'sglang', 'llama.cpp']),
  tokenizer: [
    (value) => isText(value) && value.startsWith('/'),
    "give the absolute path of a directory with the served model's tokenizer.json and chat template",
  ],
  apiKeyEnv: [
    (value) => isText(value) && /^[A-Za-z_]\w{0,63}$/.test(value) && !KEY.test(value),
    'give the name of an environment variable, not the key itself',
  ],
  timeoutSeconds: timer,
  maxConcurrent: count,
  requestsPerMinute: positive,
  tokensPerMinute: positive,
  maxTries: count,
  patienceSeconds: positive,
  maxTokensField: oneOf(['max_tokens', 'max_completion_tokens']),
  images: [(value) => typeof value === 'boolean', 'give true or false'],
  pricePerMillionTokens: [isPrice, 'give { prompt, sampled }: US dollars for a million tokens of each'],
  finishWords: [isFinishWords, `give words of the server, each with its meaning: ${MEANINGS.join(', ')}`],
  extraBody: plainObject,
};

const DEFAULTS = {
  mode: 'auto',
  timeoutSeconds: 600,
  maxConcurrent: 32,
  maxTries: 5,
  patienceSeconds: 3600,
  maxTokensField: 'max_tokens',
} as const;

/** Printed instead of a value that may contain a key. */
const HIDDEN = '(not shown)';

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shownValue(name: string, value: unknown): unknown {
  return ['apiKeyEnv', 'extraBody', 'baseUrl'].includes(name) || !(name in RULES) ? HIDDEN : value;
}

/** The modes in which a setting has no effect. Mode "auto" may become either; it takes the settings of "tokens". */
const NOT_IN: Readonly<Partial<Record<keyof Endpoint, readonly string[]>>> = {
  extraBody: ['tokens', 'auto'],
  finishWords: ['tokens', 'auto'],
  maxTokensField: ['tokens', 'auto'],
  images: ['tokens', 'auto'],
  protocol: ['chat'],
  tokenizer: ['chat'],
};

function checkTogether(
  given: Record<string, unknown>,
  endpoint: Record<string, unknown>,
  field: string,
  refuse: Refuse,
): void {
  for (const name of ['baseUrl', 'model'] as const) {
    if (endpoint[name] === undefined) refuse(`${field}.${name}`, null, RULES[name][1]);
  }
  const mode = String(endpoint['mode']);
  for (const [name, modes] of Object.entries(NOT_IN)) {
    // A default is not a user's choice: an endpoint that was resolved already may be resolved again.
    if (
      given[name] === undefined ||
      given[name] === (DEFAULTS as Record<string, unknown>)[name] ||
      !modes.includes(mode)
    )
      continue;
    refuse(`${field}.${name}`, shownValue(name, given[name]), `leave it out: it has no effect in mode ${mode}`);
  }
  if (Number(endpoint['patienceSeconds']) < Number(endpoint['timeoutSeconds'])) {
    refuse(
      `${field}.patienceSeconds`,
      endpoint['patienceSeconds'],
      `give at least timeoutSeconds, which is ${String(endpoint['timeoutSeconds'])}`,
    );
  }
  if (mode === 'tokens' && endpoint['tokenizer'] === undefined) refuse(`${field}.tokenizer`, null, RULES.tokenizer[1]);
  if (/^https?:\/\/[^/]*@/.test(String(endpoint['baseUrl']))) {
    refuse(`${field}.baseUrl`, HIDDEN, 'leave user and password out of the address; to use a key, set apiKeyEnv');
  }
}

/** `field` is the endpoint's path in the input. */
export function resolveEndpoint(given: unknown, field: string, refuse: Refuse): Endpoint {
  if (!isObject(given)) return refuse(field, given ?? null, 'give { baseUrl, model }');
  const endpoint: Record<string, unknown> = { ...DEFAULTS };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const rule = Object.hasOwn(RULES, name) ? RULES[name as keyof Endpoint] : undefined;
    const isSecret = /key|token(?![is])|secret|password/i.test(name);
    const keyRemedy = 'set apiKeyEnv to the name of the environment variable that holds the key';
    if (!rule)
      return refuse(
        `${field}.${name}`,
        !isSecret && (typeof value === 'number' || typeof value === 'boolean') ? value : HIDDEN,
        isSecret ? keyRemedy : `remove it, there is no such setting${didYouMean(name, Object.keys(RULES))}`,
      );
    const [holds, remedy] = rule;
    if (!holds(value)) return refuse(`${field}.${name}`, shownValue(name, value), remedy);
    endpoint[name] = value;
  }
  checkTogether(given, endpoint, field, refuse);
  return endpoint as unknown as Endpoint;
}

export function resolvePolicy(given: unknown, refuse: Refuse): RolloutPolicy {
  const policy = isObject(given) ? given : {};
  const version = policy['version'] ?? 0;
  if (!Number.isSafeInteger(version) || Number(version) < 0)
    return refuse('policy.version', version, 'give a whole number of at least 0');
  if ('endpoint' in policy) {
    return { endpoint: resolveEndpoint(policy['endpoint'], 'policy.endpoint', refuse), version: Number(version) };
  }
  if ('scripted' in policy) {
    const { scripted } = policy;
    if (scripted === 'replay') {
      const { of, rollouts } = policy;
      if (isText(of) && isText(rollouts)) return { scripted, of, rollouts: rollouts as ObjectRef, version: 0 };
      return refuse('policy', policy, 'play rollouts again in an eval: policies: [replay:RUN]');
    }
    if (scripted !== 'oracle' && scripted !== 'empty')
      return refuse('policy.scripted', scripted, 'give oracle or empty');
    return { scripted, version: 0 };
  }
  if (typeof policy['uri'] === 'string') {
    const { uri, newestOf, digest } = policy;
    if (schemeOf(uri) === undefined)
      return refuse('policy.uri', uri, 'give a URI, such as file:// and the absolute path of a folder');
    return {
      uri,
      version: Number(version),
      ...(isText(newestOf) ? { newestOf } : {}),
      ...(isText(digest) ? { digest } : {}),
    };
  }
  return refuse(
    'policy',
    given ?? null,
    'give { uri, version }, such as file:// and the absolute path of a directory in Hugging Face layout, ' +
      'or { endpoint: { baseUrl, model } }',
  );
}
