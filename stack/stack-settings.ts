/**
 * What a stack was told when it came up, by variable. A command whose environment says otherwise is refused, since its
 * word would have no effect; one that says nothing takes the stack as it is.
 */

import type { StackSettings } from '../connection/stack-state.ts';
import { delimiter } from 'node:path';
import { addressText, ENDPOINTS_VARIABLE, KEYS_VARIABLE, keyText } from '../endpoints/allowed-addresses.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { DIGESTS_VARIABLE, moduleDigests } from '../workers/allowed/modules.ts';
import { namedPlaces, PLACES_VARIABLE, RUN_PLACES_VARIABLE } from '../workers/allowed/places.ts';
import { POOL_VARIABLE, readGpuPool } from '../workers/gpu-pool.ts';
import { MODULES_VARIABLE, ownModules } from '../workers/own-modules.ts';
import { count, readAllowedAddresses, readWorkerSettings, type Role, ROLES } from '../workers/settings.ts';
import { DEFAULT_RETENTION_HOURS, readRetention, RETENTION_VARIABLE } from './temporal-server/retention.ts';
import { isVersioned } from '../workers/versioning/deployment.ts';

export const ROLES_VARIABLE = 'LONGHAUL_ROLES';

const AS_WRITTEN = [
  'LONGHAUL_SANDBOX',
  'LONGHAUL_DOCKER_IMAGE',
  'LONGHAUL_DOCKER_RUNTIME',
  'LONGHAUL_WARM_SANDBOXES',
  'LONGHAUL_MAX_SANDBOXES',
  'LONGHAUL_SANDBOX_TTL',
  'LONGHAUL_HOST',
  'LONGHAUL_KV_CACHE_MIB',
  'LONGHAUL_VERSIONING',
  'LONGHAUL_SLOTS_ORCHESTRATOR',
  'LONGHAUL_SLOTS_INIT',
  'LONGHAUL_SLOTS_AGENT_RUN',
  'LONGHAUL_SLOTS_REWARD',
  'LONGHAUL_SLOTS_GPU',
  'LONGHAUL_CALL_STACKS',
  'TF_NUM_INTRAOP_THREADS',
] as const;

/** What is so where nobody says otherwise. */
const UNSAID: StackSettings = {
  LONGHAUL_SANDBOX: 'auto',
  [ROLES_VARIABLE]: ROLES.join(','),
  [RETENTION_VARIABLE]: `${DEFAULT_RETENTION_HOURS}h`,
};

/** Each once, however often it is named. Errors: `UserInputError` that names a role which does not exist. */
export function wantedRoles(env: NodeJS.ProcessEnv): readonly Role[] {
  const text = env[ROLES_VARIABLE];
  if (text === undefined || text === '') return ROLES;
  const named = text.split(',').map((name) => name.trim());
  for (const name of named) {
    if (!ROLES.some((role) => role === name))
      throw new UserInputError(ROLES_VARIABLE, name, `give some of ${ROLES.join(',')}`);
  }
  return ROLES.filter((role) => named.includes(role));
}

/** What a worker would end with, and then again and again. Errors: `UserInputError`. */
function checkValues(env: NodeJS.ProcessEnv): void {
  readWorkerSettings(env);
  isVersioned(env);
  readRetention(env);
  count('LONGHAUL_KV_CACHE_MIB', 1, 1, env);
}

const inOneForm = (entries: readonly string[]): string => [...new Set(entries)].sort().join(',');

/** What `env` says. Errors: `UserInputError` for what no stack can be told. */
export function stackSettings(env: NodeJS.ProcessEnv, cwd: string): StackSettings {
  checkValues(env);
  const { keys, endpoints = [] } = readAllowedAddresses(env);
  const said: Record<string, string> = {
    ...Object.fromEntries(AS_WRITTEN.map((name) => [name, (env[name] ?? '').trim()])),
    [ROLES_VARIABLE]: env[ROLES_VARIABLE] ? wantedRoles(env).join(',') : '',
    [POOL_VARIABLE]: env[POOL_VARIABLE] ? readGpuPool(env).join(',') : '',
    // Of a file its entries, as it is now: what is written there later is no wish of who started the stack.
    [KEYS_VARIABLE]: inOneForm(keys.map(keyText)),
    [ENDPOINTS_VARIABLE]: inOneForm(endpoints.map(addressText)),
    [PLACES_VARIABLE]: namedPlaces(PLACES_VARIABLE, env, cwd).join(delimiter),
    [RUN_PLACES_VARIABLE]: namedPlaces(RUN_PLACES_VARIABLE, env, cwd).join(delimiter),
    [MODULES_VARIABLE]: ownModules(env, cwd).join(delimiter),
    [RETENTION_VARIABLE]: env[RETENTION_VARIABLE] ? `${readRetention(env)}h` : '',
    // Of a stack that is taken over, what they were when it was started.
    [DIGESTS_VARIABLE]: env[DIGESTS_VARIABLE] ?? moduleDigests(ownModules(env, cwd)),
  };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== ''));
}

/** As a stack keeps it: what is so anyway is left out, and written or not makes no other stack. */
export function kept(settings: StackSettings): StackSettings {
  return Object.fromEntries(Object.entries(settings).filter(([name, value]) => value !== UNSAID[name]));
}

/** What every worker is told of it: the rest is in which workers there are, and what each does. */
export function settingsOfWorkers(settings: StackSettings): StackSettings {
  const {
    [ROLES_VARIABLE]: _roles,
    [POOL_VARIABLE]: _pool,
    [RETENTION_VARIABLE]: _retention,
    TF_NUM_INTRAOP_THREADS: _threads,
    ...rest
  } = settings;
  return rest;
}

/**
 * `running` is `undefined` of a stack that an earlier version brought up. Errors: `UserInputError` for the first thing
 * that `asked` says and the stack does not have.
 */
export function refuseOtherSettings(asked: StackSettings, running: StackSettings | undefined, home: string): void {
  for (const [name, value] of Object.entries(asked)) {
    const has = running === undefined ? undefined : (running[name] ?? UNSAID[name] ?? '');
    if (has === value) continue;
    if (name === DIGESTS_VARIABLE && running?.[MODULES_VARIABLE] === asked[MODULES_VARIABLE]) {
      throw new UserInputError(
        MODULES_VARIABLE,
        asked[MODULES_VARIABLE],
        `a file of these has changed since the stack in ${home} was started; run npx longhaul down first, or put it back`,
      );
    }
    const what =
      has === undefined
        ? 'was started by an earlier version, which did not write down what it runs with'
        : `runs with ${has === '' ? 'none' : JSON.stringify(has)}`;
    throw new UserInputError(
      name,
      value,
      `the stack in ${home} ${what}; run npx longhaul down first, or leave it out to go on with the stack as it is`,
    );
  }
}
