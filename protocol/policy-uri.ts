/**
 * Policies and saved states are named by URIs: `file:` for a folder, `hub:` for a model of a hub, and the schemes of
 * other backends. Users may give paths and hub ids; these become URIs before a run starts. Pure.
 */

import { UserInputError } from './user-input-error.ts';

const SCHEME = /^([a-z][a-z0-9+.-]*):/;

/** `undefined` for a path or a hub id without `hub:`. */
export const schemeOf = (text: string): string | undefined => SCHEME.exec(text)?.[1];

/** `path` is absolute. */
export const fileUri = (path: string): string =>
  `file://${encodeURI(path).replaceAll('?', '%3F').replaceAll('#', '%23')}`;

/** The folder that a URI names; `undefined` if it names none. */
export function folderOf(uri: string): string | undefined {
  const [, path] = /^file:\/\/(\/.*)$/s.exec(uri) ?? [];
  if (path === undefined) return undefined;
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

/** The folder of a policy of the embedded engine. Errors: `UserInputError` for `field`. */
export function pathOf(uri: string, field = 'policy.uri'): string {
  const path = folderOf(uri);
  if (path !== undefined) return path;
  throw new UserInputError(field, uri, 'the embedded engine reads folders: give file:// and an absolute path');
}
