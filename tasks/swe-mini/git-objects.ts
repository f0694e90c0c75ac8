/**
 * Makes a git repository as files, without git: blobs, trees, commits, references and the index. Equal commits give
 * equal bytes on every machine. Objects are not compressed, since zlib's output differs between builds.
 */

import { createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';

import type { SandboxFile } from '../../sandboxes/sandbox.ts';

/** A commit's whole tree: path -> content. Paths are relative and use slashes. */
export type Tree = ReadonlyMap<string, string>;

export interface Commit {
  readonly message: string;
  readonly tree: Tree;
  /** Seconds since the epoch, UTC. */
  readonly time: number;
}

export interface GitRepository {
  /** Files under `.git`, for a sandbox. */
  readonly files: readonly SandboxFile[];
  /** Hash of the last commit. */
  readonly head: string;
}

const AUTHOR = 'Longhaul <swe-mini@longhaul.invalid>';
const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n';

type Objects = Map<string, Buffer>;

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

function addObject(objects: Objects, type: 'blob' | 'tree' | 'commit', body: Buffer): string {
  const bytes = Buffer.concat([Buffer.from(`${type} ${body.length}\0`), body]);
  const hash = createHash('sha1').update(bytes).digest('hex');
  objects.set(hash, bytes);
  return hash;
}

interface Entry {
  readonly name: string;
  readonly mode: '100644' | '40000';
  readonly hash: string;
}

/** Entries are sorted as if a directory's name ended with a slash (git's own order). */
function addEntries(objects: Objects, entries: readonly Entry[]): string {
  const key = ({ name, mode }: Entry): string => (mode === '40000' ? `${name}/` : name);
  const body = entries
    .toSorted((a, b) => byBytes(key(a), key(b)))
    .flatMap(({ name, mode, hash }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(hash, 'hex')]);
  return addObject(objects, 'tree', Buffer.concat(body));
}

function addTree(objects: Objects, tree: Tree, prefix = ''): string {
  const entries = new Map<string, Entry>();
  for (const [path, content] of tree) {
    if (!path.startsWith(prefix)) continue;
    const [name = '', ...rest] = path.slice(prefix.length).split('/');
    if (entries.has(name)) continue;
    entries.set(
      name,
      rest.length === 0
        ? { name, mode: '100644', hash: addObject(objects, 'blob', Buffer.from(content)) }
        : { name, mode: '40000', hash: addTree(objects, tree, `${prefix}${name}/`) },
    );
  }
  return addEntries(objects, [...entries.values()]);
}

function addCommit(objects: Objects, commit: Commit, parent: string | undefined): string {
  const lines = [
    `tree ${addTree(objects, commit.tree)}`,
    ...(parent === undefined ? [] : [`parent ${parent}`]),
    `author ${AUTHOR} ${commit.time} +0000`,
    `committer ${AUTHOR} ${commit.time} +0000`,
    '',
    `${commit.message}\n`,
  ];
  return addObject(objects, 'commit', Buffer.from(lines.join('\n')));
}

/**
 * The index (version 2) of a tree: https://git-scm.com/docs/index-format. Times and sizes are 0, so git treats the
 * files as not checked yet, and compares contents.
 */
function indexOf(tree: Tree): Buffer {
  const header = Buffer.from('DIRC\0\0\0\0\0\0\0\0', 'latin1');
  header.writeUInt32BE(2, 4);
  header.writeUInt32BE(tree.size, 8);
  const entries = [...tree]
    .toSorted(([a], [b]) => byBytes(a, b))
    .map(([path, content]) => {
      const name = Buffer.from(path);
      const length = Math.floor((62 + name.length) / 8) * 8 + 8;
      const entry = Buffer.alloc(length);
      entry.writeUInt32BE(0o100644, 24);
      Buffer.from(addObject(new Map(), 'blob', Buffer.from(content)), 'hex').copy(entry, 40);
      entry.writeUInt16BE(Math.min(name.length, 0xfff), 60);
      name.copy(entry, 62);
      return entry;
    });
  const body = Buffer.concat([header, ...entries]);
  return Buffer.concat([body, createHash('sha1').update(body).digest()]);
}

/** Errors: `RangeError` if `commits` is empty. */
export function makeGitRepository(commits: readonly Commit[]): GitRepository {
  const last = commits.at(-1);
  if (last === undefined) throw new RangeError('a repository needs a commit');
  const objects: Objects = new Map();
  let head: string | undefined;
  for (const commit of commits) head = addCommit(objects, commit, head);
  const file = (path: string, content: string | Uint8Array): SandboxFile => ({ path: `.git/${path}`, content });
  return {
    head: head ?? '',
    files: [
      file('HEAD', 'ref: refs/heads/main\n'),
      file('config', CONFIG),
      file('refs/heads/main', `${head}\n`),
      file('index', indexOf(last.tree)),
      ...[...objects].map(([hash, bytes]) =>
        file(`objects/${hash.slice(0, 2)}/${hash.slice(2)}`, deflateSync(bytes, { level: 0 })),
      ),
    ],
  };
}
