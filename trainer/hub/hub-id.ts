/**
 * Names of models on a hub: `org/name`, `org/name@revision`, or either after `hf:`. Without `hf:`, an existing
 * directory of that name takes precedence.
 */

import { existsSync } from 'node:fs';
import path from 'node:path';

export interface HubId {
  /** `org/name`. */
  readonly repo: string;
  /** A branch, a tag, or a commit's 40 digits. */
  readonly revision: string;
}

const prefix = 'hf:';
const pattern = /^(?:hf:)?([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@([A-Za-z0-9][\w./-]*))?$/;

/** `undefined` for a text that can only be a path. */
export function parseHubId(text: string): HubId | undefined {
  const [, repo, revision = 'main'] = pattern.exec(text) ?? [];
  if (repo === undefined || repo.includes('..') || revision.includes('..')) return undefined;
  return { repo, revision };
}

export const hubIdText = ({ repo, revision }: HubId): string => `${prefix}${repo}@${revision}`;

/** What `text` names: an existing directory, else a hub id, else a path. Directories and paths are absolute. */
export function absoluteModel(text: string, cwd: string): string {
  const there = path.resolve(cwd, text);
  const id = parseHubId(text);
  if (id === undefined || (!text.startsWith(prefix) && existsSync(there))) return there;
  return hubIdText(id);
}
