/**
 * Names of files of a hub's datasets: `hub:OWNER/NAME@REVISION/PATH`; without a revision, `main`. A revision has no
 * slash, but for `refs/convert/parquet` and `refs/pr/7`; one with a slash is written with `%2F`.
 */

import type { HubId } from './hub-id.ts';

export interface HubFileId extends HubId {
  /** In the repository. */
  readonly path: string;
}

const PATTERN =
  /^hub:([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@(refs\/(?:convert|pr)\/[\w.-]+|[A-Za-z0-9][\w.%-]*))?\/(.+)$/;

const isPlain = (path: string): boolean =>
  path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\\'));

/** `undefined` for another text, and for a path that leaves the repository. */
export function parseHubFile(text: string): HubFileId | undefined {
  const [, repo = '', written = 'main', path = ''] = PATTERN.exec(text) ?? [];
  const revision = written.replaceAll(/%2F/gi, '/');
  if (repo === '' || repo.includes('..') || !isPlain(path) || !isPlain(revision) || revision.includes('%'))
    return undefined;
  return { repo, revision, path };
}

/** The file is not in the cache and cannot be downloaded. */
export class DataUnavailable extends Error {
  override readonly name = 'DataUnavailable';
  /** `OWNER/NAME`. */
  readonly id: string;
  readonly cache: string;
  /** True if the hub was not asked, or did not answer: nothing is known about the file. */
  readonly unreachable: boolean;

  constructor(
    { repo, revision, path }: HubFileId,
    cache: string,
    problem: string,
    remedy: string,
    options: ErrorOptions & { readonly unreachable?: boolean } = {},
  ) {
    super(
      `${path} of dataset ${repo} (revision ${revision}) is not in the cache ${cache}, and ${problem}; ${remedy}`,
      options,
    );
    this.id = repo;
    this.cache = cache;
    this.unreachable = options.unreachable === true;
  }
}
