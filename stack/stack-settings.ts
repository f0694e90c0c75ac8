/**
 * The settings that a stack was started with, by variable. A command fails if its environment sets one of them to
 * another value, which would have no effect; variables that it does not set are taken from the stack.
 */

import type { StackSettings } from '../connection/stack-state.ts';
import { STORE_VARIABLE, storeUrlFrom } from '../store/open-store.ts';
import { delimiter } from 'node:path';
import { addressText, ENDPOINTS_VARIABLE, KEYS_VARIABLE, keyText } from '../endpoints/allowed-addresses.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { MODULE_PLACES_VARIABLE, refuseOldVariables } from '../workers/allowed/module-places.ts';
import { namedPlaces, PLACES_VARIABLE, RUN_PLACES_VARIABLE } from '../workers/allowed/places.ts';
import { POOL_VARIABLE, readGpuPool } from '../workers/gpu-pool.ts';
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
  'LONGHAUL_SANDBOX_MEMORY',
  'LONGHAUL_SANDBOX_TTL',
  'LONGHAUL_SNAPSHOT_MIB',
  'LONGHAUL_HOST',
  'LONGHAUL_KV_CACHE_MIB',
  'LONGHAUL_ADAPTERS_MIB',
  'LONGHAUL_MIXED_ENGINES',
  'LONGHAUL_VERSIONING',
  'LONGHAUL_SLOTS_ORCHESTRATOR',
  'LONGHAUL_SLOTS_INIT',
  'LONGHAUL_SLOTS_AGENT_RUN',
  'LONGHAUL_SLOTS_REWARD',
  'LONGHAUL_SLOTS_GPU',
  'LONGHAUL_CALL_STACKS',
  'LONGHAUL_SECRETS',
  'TF_NUM_INTRAOP_THREADS',
] as const;

/** Defaults of settings that are not set. */
const UNSAID: StackSettings = {
  LONGHAUL_SANDBOX: 'auto',
  [ROLES_VARIABLE]: ROLES.join(','),
  [RETENTION_VARIABLE]: `${DEFAULT_RETENTION_HOURS}h`,
};

/** Each role once, however often it is named. Errors: `UserInputError` that names a role which does not exist. */
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

/** Checks here the values with which every worker would fail at each start. Errors: `UserInputError`. */
function checkValues(env: NodeJS.ProcessEnv): void {
  refuseOldVariables(env);
  readWorkerSettings(env);
  isVersioned(env);
  readRetention(env);
  count('LONGHAUL_KV_CACHE_MIB', 1, 1, env);
  count('LONGHAUL_ADAPTERS_MIB', 1, 1, env);
}

const inOneForm = (entries: readonly string[]): string => [...new Set(entries)].sort().join(',');

/** The settings in `env`. Errors: `UserInputError` for a value that cannot be used. */
export function stackSettings(env: NodeJS.ProcessEnv, cwd: string): StackSettings {
  checkValues(env);
  const { keys, endpoints = [] } = readAllowedAddresses(env);
  const said: Record<string, string> = {
    ...Object.fromEntries(AS_WRITTEN.map((name) => [name, (env[name] ?? '').trim()])),
    [STORE_VARIABLE]: env[STORE_VARIABLE] ? storeUrlFrom(env[STORE_VARIABLE], cwd) : '',
    [ROLES_VARIABLE]: env[ROLES_VARIABLE] ? wantedRoles(env).join(',') : '',
    [POOL_VARIABLE]: env[POOL_VARIABLE] ? readGpuPool(env).join(',') : '',
    // The current entries of a file: entries that are written later are not part of the stack's settings.
    [KEYS_VARIABLE]: inOneForm(keys.map(keyText)),
    [ENDPOINTS_VARIABLE]: inOneForm(endpoints.map(addressText)),
    [PLACES_VARIABLE]: namedPlaces(PLACES_VARIABLE, env, cwd).join(delimiter),
    [RUN_PLACES_VARIABLE]: namedPlaces(RUN_PLACES_VARIABLE, env, cwd).join(delimiter),
    [MODULE_PLACES_VARIABLE]: namedPlaces(MODULE_PLACES_VARIABLE, env, cwd).join(delimiter),
    [RETENTION_VARIABLE]: env[RETENTION_VARIABLE] ? `${readRetention(env)}h` : '',
  };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== ''));
}

/** The settings as a stack records them: defaults are left out, so that writing a default changes nothing. */
export function kept(settings: StackSettings): StackSettings {
  return Object.fromEntries(Object.entries(settings).filter(([name, value]) => value !== UNSAID[name]));
}

/** The settings that every worker receives: the others decide only which workers there are, and what each does. */
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
 * `running` is `undefined` for a stack that an earlier version started. Errors: `UserInputError` for the first setting
 * of `asked` that differs from the stack's.
 */
export function refuseOtherSettings(asked: StackSettings, running: StackSettings | undefined, home: string): void {
  for (const [name, value] of Object.entries(asked)) {
    const has = running === undefined ? undefined : (running[name] ?? UNSAID[name] ?? '');
    if (has === value) continue;
    const what =
      has === undefined
        ? 'was started by an earlier version, which did not record its settings'
        : `runs with ${has === '' ? 'none' : JSON.stringify(has)}`;
    throw new UserInputError(
      name,
      value,
      `the stack in ${home} ${what}; run npx longhaul down first, or leave the setting out to use the stack as it is`,
    );
  }
}
