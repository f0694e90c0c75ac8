/**
 * Names of models on a hub: `org/name`, `org/name@revision`, or either after `hub:`. Without `hub:`, an existing
 * directory of that name takes precedence.
 */

import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileUri, schemeOf } from '../../protocol/policy-uri.ts';

export interface HubId {
  /** `org/name`. */
  readonly repo: string;
  /** A branch, a tag, or a commit's 40 digits. */
  readonly revision: string;
}

const prefix = 'hub:';
const pattern = /^(?:hub:)?([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@([A-Za-z0-9][\w./-]*))?$/;

/** `undefined` for a text that can only be a path. */
export function parseHubId(text: string): HubId | undefined {
  const [, repo, revision = 'main'] = pattern.exec(text) ?? [];
  if (repo === undefined || repo.includes('..') || revision.includes('..')) return undefined;
  return { repo, revision };
}

export const hubIdText = ({ repo, revision }: HubId): string => `${prefix}${repo}@${revision}`;

/**
 * The URI of what `text` names: a URI, an existing directory, a hub id or a path, the first that it can be. Relative
 * paths start at `cwd`.
 */
export function modelUri(text: string, cwd: string): string {
  const scheme = schemeOf(text);
  if (scheme !== undefined && scheme !== 'hub') return text;
  const there = path.resolve(cwd, text);
  const id = parseHubId(text);
  if (id === undefined || (!text.startsWith(prefix) && existsSync(there))) return fileUri(there);
  return hubIdText(id);
}
