/**
 * The keys of its environment that a worker may send, with their addresses, and the endpoints that it may use. The
 * operator lists them, since an endpoint's settings come from any client that may start a workflow.
 */

import { readFileSync } from 'node:fs';

/** Entries `NAME@https://host/path`, separated by commas or white space, or the path of a file with them. */
export const KEYS_VARIABLE = 'LONGHAUL_KEYS';
/** Entries `https://host/path`. If it is set, no other endpoint is used. */
export const ENDPOINTS_VARIABLE = 'LONGHAUL_ENDPOINTS';

type Environment = Readonly<Record<string, string | undefined>>;

/** An entry that cannot be used: the variable, the entry and the remedy. */
export class BadEntry extends Error {
  override readonly name = 'BadEntry';
  readonly variable: string;
  readonly entry: string;
  readonly remedy: string;

  constructor(variable: string, entry: string, remedy: string) {
    super(`${variable}: ${JSON.stringify(entry)} cannot be used; ${remedy}`);
    [this.variable, this.entry, this.remedy] = [variable, entry, remedy];
  }
}

/** All addresses of one origin with this path or a path below it. */
export interface AllowedAddress {
  readonly origin: string;
  /** Without a slash at the end. */
  readonly path: string;
}

export interface AllowedKey extends AllowedAddress {
  readonly name: string;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

export const addressText = ({ origin, path }: AllowedAddress): string => `${origin}${path}`;
export const keyText = (key: AllowedKey): string => `${key.name}@${addressText(key)}`;

function addressOf(text: string): (AllowedAddress & { readonly isSafe: boolean }) | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    return undefined;
  return {
    origin: url.origin,
    path: url.pathname.replace(/\/+$/, ''),
    isSafe: url.protocol === 'https:' || LOOPBACK.test(url.hostname),
  };
}

/** The entries of the variable, or of the file that it names. A line that starts with `#` is a comment. */
function entriesIn(variable: string, env: Environment): string[] {
  const value = (env[variable] ?? '').trim();
  const text = /^[./]/.test(value) ? fileText(variable, value) : value;
  return text
    .replaceAll(/^\s*#.*$/gm, '')
    .split(/[\s,]+/)
    .filter((entry) => entry !== '');
}

function fileText(variable: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new BadEntry(
      variable,
      path,
      `give entries, or the path of a readable file with them (${(error as Error).message})`,
    );
  }
}

/** Errors: `BadEntry`. */
export function allowedKeys(env: Environment): AllowedKey[] {
  return entriesIn(KEYS_VARIABLE, env).map((entry) => {
    const [, name, where = ''] = /^([A-Za-z_]\w{0,63})@(.+)$/.exec(entry) ?? [];
    const address = addressOf(where);
    // An entry without a name may be a key that was given by mistake, so it is not shown.
    if (name === undefined)
      throw new BadEntry(
        KEYS_VARIABLE,
        '(not shown)',
        'give entries such as MY_KEY@https://host/v1: names of variables, never keys',
      );
    if (address === undefined)
      throw new BadEntry(KEYS_VARIABLE, entry, 'give the address that the key is for, such as MY_KEY@https://host/v1');
    if (!address.isSafe)
      throw new BadEntry(KEYS_VARIABLE, entry, 'give an https address: over http, keys are sent to this machine only');
    return { name, origin: address.origin, path: address.path };
  });
}

/** Returns `undefined` if the variable lists none. Errors: `BadEntry`. */
export function allowedEndpoints(env: Environment): AllowedAddress[] | undefined {
  const entries = entriesIn(ENDPOINTS_VARIABLE, env);
  if (entries.length === 0) return undefined;
  return entries.map((entry) => {
    const address = addressOf(entry);
    if (address === undefined)
      throw new BadEntry(ENDPOINTS_VARIABLE, entry, 'give addresses such as http://127.0.0.1:8000/v1');
    return { origin: address.origin, path: address.path };
  });
}

/**
 * True if a request to `url` stays at the entry's address. False for paths that a server may decode to another one:
 * with an encoded slash or dot (also encoded twice), or with `..;`, which some servers read as `..` (also with an
 * encoded semicolon).
 */
export function covers({ origin, path }: AllowedAddress, url: string): boolean {
  const asked = URL.parse(url);
  if (asked === null || asked.username || asked.password || asked.origin !== origin) return false;
  if (/%(25)*(2e|2f|5c)|\.\.(;|%(25)*3b)/i.test(asked.pathname)) return false;
  return asked.pathname === path || asked.pathname.startsWith(`${path}/`);
}
