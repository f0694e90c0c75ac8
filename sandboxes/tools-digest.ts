/**
 * The digest of a folder of tools: of names, sizes, links and rights of its files, and of what package managers' lists
 * in it say. Equal packages have the same digest on every host, whenever they were installed. A file that is changed in
 * place, and keeps its size, is not seen unless such a list has its hash.
 */

import { createHash, type Hash } from 'node:crypto';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Lists with the packages' versions and hashes: of pip, npm, pnpm, yarn and uv. */
const LISTS = new Set(['RECORD', '.package-lock.json', 'package-lock.json', 'pnpm-lock.yaml', 'yarn.lock', 'uv.lock']);
/** A longer list counts by its size. */
const MOST_LIST_BYTES = 64 << 20;
/** Python writes these where a package is first used. */
const MADE_BY_USE = '__pycache__';

/** The entries in a fixed order, so that the digest is the same everywhere. */
async function add(hash: Hash, folder: string, at: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name !== MADE_BY_USE).toSorted();
  const found = await Promise.all(names.map(async (name) => [name, await lstat(join(folder, name))] as const));
  for (const [name, stat] of found) {
    const [path, place] = [join(folder, name), `${at}/${name}`];
    if (stat.isDirectory()) await add(hash, path, place);
    else if (stat.isSymbolicLink()) hash.update(JSON.stringify([place, 'link', await readlink(path)]));
    else {
      hash.update(JSON.stringify([place, stat.size, (stat.mode & 0o111) !== 0]));
      if (LISTS.has(name) && stat.isFile() && stat.size <= MOST_LIST_BYTES) hash.update(await readFile(path));
    }
  }
}

/** Hexadecimal digits of a SHA-256. Errors: those of the file system. */
export async function toolsDigest(folder: string): Promise<string> {
  const hash = createHash('sha256');
  await add(hash, folder, '');
  return hash.digest('hex');
}
