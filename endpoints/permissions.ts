/** What this worker may send where: each request is checked against the operator's lists before it is made. */

import {
  type AllowedAddress,
  allowedEndpoints,
  type AllowedKey,
  allowedKeys,
  covers,
  ENDPOINTS_VARIABLE,
  KEYS_VARIABLE,
} from './allowed-addresses.ts';
import { EndpointError } from './endpoint-error.ts';

export class Permissions {
  readonly #env: NodeJS.ProcessEnv;
  readonly #keys: readonly AllowedKey[];
  readonly #endpoints: readonly AllowedAddress[] | undefined;

  /** Errors: `BadEntry` if a list in the environment cannot be parsed. */
  constructor(env: NodeJS.ProcessEnv) {
    this.#env = env;
    this.#keys = allowedKeys(env);
    this.#endpoints = allowedEndpoints(env);
  }

  /** True if the operator listed the address. Errors: `EndpointError` if there is a list of endpoints without it. */
  isNamed(url: string): boolean {
    const named = [...(this.#endpoints ?? []), ...this.#keys].some((one) => covers(one, url));
    if (named || this.#endpoints === undefined) return named;
    throw new EndpointError('address-not-allowed', `${ENDPOINTS_VARIABLE} of this worker does not list ${url}`);
  }

  /**
   * The key for a request, read from the environment for each one. It is sent only to addresses that the operator
   * listed for it. Errors: `EndpointError`.
   */
  keyOf(apiKeyEnv: string | undefined, url: string): string | undefined {
    if (apiKeyEnv === undefined) return undefined;
    if (!this.#keys.some((one) => one.name === apiKeyEnv && covers(one, url))) {
      throw new EndpointError(
        'key-not-allowed',
        `${KEYS_VARIABLE} of this worker does not list ${apiKeyEnv} for ${url}`,
      );
    }
    const key = this.#env[apiKeyEnv];
    if (!key) throw new EndpointError('auth', `the environment variable ${apiKeyEnv} is not set for this worker`);
    return key;
  }
}
