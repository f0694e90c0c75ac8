/** The backends by name and by the schemes of their URIs. The embedded one is always there. */

import { Definition } from '../../modules/check-definition.ts';
import { didYouMean } from '../../protocol/closest.ts';
import { Registry } from '../../modules/registry.ts';
import { schemeOf } from '../../protocol/policy-uri.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { BackendAbilities, BackendDefinition, SamplingOption } from './definition.ts';

export const SAMPLING_OPTIONS: readonly SamplingOption[] = [
  'greedy',
  'topP',
  'topK',
  'minP',
  'repetitionPenalty',
  'stop',
];

/** Longhaul's own engine. Its functions are in the engine's thread, and are not looked up here. */
export const EMBEDDED: BackendAbilities = {
  name: 'embedded',
  schemes: ['file', 'hub'],
  promise: 'same-bits',
  losses: 'any',
  entropy: true,
  critic: true,
  lora: true,
  sampling: SAMPLING_OPTIONS,
  maxContext: null,
  images: false,
};

/** Schemes that no definition may take: they have a meaning elsewhere. */
const TAKEN = ['file', 'hub', 'http', 'https', 'latest', 'endpoint'];
const SCHEME = /^[a-z][a-z0-9+.-]{1,31}$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const MOST_CALL_SECONDS = 3600;

const backends = new Registry<BackendDefinition>('backend', {});

function checkAbilities(definition: Definition, given: Partial<BackendAbilities>): void {
  const refuse = (member: keyof BackendAbilities, remedy: string) => {
    throw definition.refused(member, given[member], remedy);
  };
  const texts = (value: unknown): value is readonly string[] =>
    Array.isArray(value) && value.every((one) => typeof one === 'string');
  if (!texts(given.schemes) || given.schemes.length === 0 || !given.schemes.every((one) => SCHEME.test(one)))
    refuse('schemes', 'give at least one scheme in small letters, such as tinker');
  if (given.schemes?.some((one) => TAKEN.includes(one))) refuse('schemes', `give others than ${TAKEN.join(', ')}`);
  if (given.promise !== 'same-bits' && given.promise !== 'exactly-once')
    refuse('promise', 'give same-bits or exactly-once');
  if (given.losses !== 'any' && !texts(given.losses)) refuse('losses', 'give any, or a list of names of losses');
  for (const member of ['entropy', 'lora', 'images'] as const)
    if (typeof given[member] !== 'boolean') refuse(member, 'give true or false');
  if (given.critic !== false) refuse('critic', 'give false: only the embedded backend trains a critic');
  if (!texts(given.sampling) || !given.sampling.every((one) => (SAMPLING_OPTIONS as readonly string[]).includes(one)))
    refuse('sampling', `give a list of ${SAMPLING_OPTIONS.join(', ')}`);
  const { maxContext } = given;
  if (!Number.isSafeInteger(maxContext) || Number(maxContext) < 1) refuse('maxContext', 'give a number of tokens');
}

/**
 * Adds a backend, for `policy.backend` and for URIs of its schemes. Errors: `DefinitionRefused` if a member is missing
 * or wrong; `NameTaken`.
 */
export function defineBackend<Session>(backend: BackendDefinition<Session>): BackendDefinition<Session> {
  const definition = new Definition('defineBackend', backend, NAME, 'give letters, digits, dot, dash and underscore');
  definition.functions(
    ['describe', 'sample', 'open', 'forward', 'forwardBackward', 'optimStep', 'saveState', 'saveForSampler'],
    ['resolve', 'close', 'refuse'],
  );
  if (backend.name === EMBEDDED.name) throw definition.refused('name', backend.name, 'give another name');
  checkAbilities(definition, backend);
  const { callSeconds = 1 } = backend;
  if (!(callSeconds > 0 && callSeconds <= MOST_CALL_SECONDS))
    throw definition.refused('callSeconds', callSeconds, `give seconds above 0, at most ${MOST_CALL_SECONDS}`);
  backends.define(backend.name, backend as BackendDefinition);
  return backend;
}

/** Adds a backend that is built in, unless another copy of this package has added it in this process. */
export function builtInBackend<Session>(backend: BackendDefinition<Session>): void {
  if (!backends.has(backend.name)) backends.define(backend.name, backend as BackendDefinition);
}

const isEmbedded = (scheme: string | undefined): boolean =>
  scheme === undefined || (EMBEDDED.schemes as readonly string[]).includes(scheme);

/**
 * The backend that holds the policy; `undefined` for the embedded one. `modules`: digest of imported modules. Errors:
 * `UserInputError` for `field` if no backend, or more than one, has the URI's scheme.
 */
export function backendOfUri(uri: string, modules?: string, field = 'policy.uri'): BackendDefinition | undefined {
  const scheme = schemeOf(uri);
  if (isEmbedded(scheme)) return undefined;
  const all = [...backends.of(modules).values()];
  const [found, second] = all.filter(({ schemes }) => schemes.includes(scheme ?? ''));
  if (second !== undefined)
    throw new UserInputError(field, uri, `${found?.name} and ${second.name} both have the scheme ${scheme}: drop one`);
  if (found !== undefined) return found;
  const known = [...EMBEDDED.schemes, ...all.flatMap(({ schemes }) => schemes)].map((one) => `${one}:`).join(', ');
  throw new UserInputError(
    field,
    uri,
    `no backend has the scheme ${scheme}: give a path, a hub id or a URI with one of ${known}, ` +
      'or name the module that defines a backend for it in modules',
  );
}

/** `undefined` for the embedded backend. Errors: `UserInputError` for `policy.backend`. */
export function backendNamed(name: string, modules?: string): BackendDefinition | undefined {
  if (name === EMBEDDED.name) return undefined;
  const found = backends.of(modules).get(name);
  if (found !== undefined) return found;
  const names = [EMBEDDED.name, ...backends.names(modules)];
  throw new UserInputError(
    'policy.backend',
    name,
    `give one of ${names.join(', ')} (modules define others)${didYouMean(name, names)}`,
  );
}
