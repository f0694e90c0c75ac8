/**
 * What the operator allows the worker's tools: which servers they may ask, and which keys they may send where. The
 * lists are those of endpoints.
 */

import {
  allowedEndpoints,
  allowedKeys,
  covers,
  ENDPOINTS_VARIABLE,
  KEYS_VARIABLE,
} from '../../endpoints/allowed-addresses.ts';
import { checkHost } from '../../endpoints/never-asked.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { ServiceUnavailable } from './service-unavailable.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Errors: `UserInputError` under `field` if the worker may not ask this server. */
export function checkServer(field: string, url: URL, env: Environment = process.env): void {
  if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new UserInputError(field, url.href, 'give an address such as http://127.0.0.1:8000/retrieve');
  const listed = allowedEndpoints(env);
  const isListed = [...(listed ?? []), ...allowedKeys(env)].some((one) => covers(one, url.href));
  if (isListed) return;
  if (listed !== undefined)
    throw new UserInputError(field, url.href, `add it to ${ENDPOINTS_VARIABLE}, and start the workers again`);
  try {
    checkHost(url);
  } catch (error) {
    throw new UserInputError(field, url.href, (error as Error).message, { cause: error });
  }
}

/** Why a key cannot be sent, with the remedy; `undefined` if the operator's list has it for this address. */
export function keyNotListed(name: string, url: URL, env: Environment = process.env): string | undefined {
  if (allowedKeys(env).some((one) => one.name === name && covers(one, url.href))) return undefined;
  return (
    `the key ${name} is not allowed for ${url.origin}: ` +
    `start the stack with ${KEYS_VARIABLE}=${name}@${url.origin} and ${name} in its environment`
  );
}

/** The key, which may be sent to this address only. Errors: `ServiceUnavailable` with the variable and the remedy. */
export function keyFor(name: string, url: URL, env: Environment = process.env): string {
  const wrong = keyNotListed(name, url, env);
  if (wrong !== undefined) throw new ServiceUnavailable('key', wrong);
  const key = env[name];
  if (key === undefined || key === '')
    throw new ServiceUnavailable('key', `the environment variable ${name} is not set for this worker`);
  return key;
}
