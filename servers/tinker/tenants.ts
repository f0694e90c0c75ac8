/**
 * Whose a request is. A tenant is the name of an API key: with configured keys the name that each was given, without
 * them the key's digest, so that any key is a tenant of its own. Keys never appear in names or messages.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { type CallerRequest, checkCaller } from '../http/admission.ts';
import { ApiError } from '../http/api-error.ts';

/** The SDK refuses other keys before it sends anything. */
const KEY = /^(tml-|eyJ)[\w.=-]{1,8192}$/;
const NAMED = /^([a-z0-9][a-z0-9-]{0,63})=(.+)$/;

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();
const tenantOfKey = (key: string): string => `key-${sha256(key).toString('hex').slice(0, 16)}`;

export interface TenantKey {
  readonly tenant: string;
  readonly key: string;
}

/**
 * Keys from the text of a variable: separated by commas or spaces, each `KEY` or `NAME=KEY`. Two keys with one name are
 * one tenant. Errors: `UserInputError`, without the text.
 */
export function readKeys(text: string, option: string): TenantKey[] {
  const keys = text.split(/[\s,]+/).filter((part) => part !== '');
  return keys.map((part) => {
    const [, name, key = part] = NAMED.exec(part) ?? [];
    if (!KEY.test(key))
      throw new UserInputError(option, '(not shown)', 'give keys that start with tml- or eyJ: the SDK sends no others');
    return { tenant: name ?? tenantOfKey(key), key };
  });
}

export class Tenants {
  readonly #keys: ReadonlyArray<{ readonly tenant: string; readonly digest: Buffer }> | undefined;

  /** Without keys: callers on this machine, each key a tenant. */
  constructor(keys: readonly TenantKey[] | undefined) {
    this.#keys = keys?.map(({ tenant, key }) => ({ tenant, digest: sha256(key) }));
  }

  /** Errors: `ApiError` 401; 403 for a host name that is not this machine's, without keys. */
  admit(request: CallerRequest): void {
    if (this.#keys === undefined) checkCaller(request, undefined);
    this.tenantOf(request.headers);
  }

  /** Errors: `ApiError` 401. */
  tenantOf(headers: IncomingHttpHeaders): string {
    const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1];
    const given = String(headers['x-api-key'] ?? bearer ?? '');
    if (!KEY.test(given))
      throw new ApiError(401, 'a key is required: send the header X-API-Key, with a key that starts with tml- or eyJ');
    if (this.#keys === undefined) return tenantOfKey(given);
    const digest = sha256(given);
    // All are compared, so that the time says nothing about which.
    const [found] = this.#keys.filter((one) => timingSafeEqual(one.digest, digest));
    if (found) return found.tenant;
    throw new ApiError(401, 'this API key is not known here');
  }
}
