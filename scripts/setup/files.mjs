/** Atomic writes of files and folders: everything is written to a temporary name, then renamed. */

import { createHash, randomBytes } from 'node:crypto';
import {
  createReadStream,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { startTimeOf } from './process-identity.mjs';

const STAMP = '.complete.json';

/** The SHA-256 of a file, in hexadecimal. It is read in pieces, since some files have hundreds of megabytes. */
export async function hashFile(path) {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}

/** One SHA-256 over the names and contents of files, and of all files in folders. A missing path counts as empty. */
export function hashInputs(paths, base) {
  const hash = createHash('sha256');
  for (const path of paths.flatMap((one) => filesUnder(one))) {
    hash
      .update(`${relative(base, path)}\0`)
      .update(readFileSync(path))
      .update('\0');
  }
  return hash.digest('hex');
}

/** Writes a file to a temporary name and renames it. If that fails, the temporary file is removed. */
export function writeWhole(path, content) {
  mkdirSync(dirname(path), { recursive: true });
  const aside = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    writeFileSync(aside, content);
    renameSync(aside, path);
  } catch (error) {
    rmSync(aside, { force: true });
    throw error;
  }
}

/** The JSON value of a file. `undefined` if the file is missing or invalid. */
export function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Makes the folder `path` once: `fill(aside)` fills a temporary folder and returns the fields of its stamp; then the
 * folder is renamed. Returns the stamp of the folder. A folder without a stamp is incomplete, and is made again.
 */
export async function makeDirectoryOnce(path, fill) {
  const present = directoryStamp(path);
  if (present !== undefined) return present;
  rmSync(path, { recursive: true, force: true });
  removeLeftovers(path);
  const aside = `${path}.partial-${process.pid}-${randomBytes(4).toString('hex')}`;
  mkdirSync(aside, { recursive: true });
  try {
    const stamp = { ...(await fill(aside)), files: sizesOf(aside) };
    writeFileSync(join(aside, STAMP), JSON.stringify(stamp));
    renameSync(aside, path);
    return stamp;
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
}

/** Removes the temporary folders of killed processes beside `path`. */
function removeLeftovers(path) {
  const prefix = `${basename(path)}.partial-`;
  const beside = existsSync(dirname(path)) ? readdirSync(dirname(path)) : [];
  for (const name of beside.filter((one) => one.startsWith(prefix))) {
    const pid = Number(name.slice(prefix.length).split('-')[0]);
    if (startTimeOf(pid) === undefined) rmSync(join(dirname(path), name), { recursive: true, force: true });
  }
}

/** The stamp of a complete folder. `undefined` if the folder or one of its files is missing or incomplete. */
export function directoryStamp(path) {
  const stamp = readJson(join(path, STAMP));
  if (stamp === undefined) return undefined;
  const isWhole = Object.entries(stamp.files).every(([name, size]) => {
    const file = join(path, name);
    return existsSync(file) && lstatSync(file).size === size;
  });
  return isWhole ? stamp : undefined;
}

/** Points `link` at `target` by a rename. Replaces an old link or folder. Returns false if nothing changed. */
export function swapLink(target, link) {
  const present = lstatSync(link, { throwIfNoEntry: false });
  if (present?.isSymbolicLink() && readlinkSync(link) === target) return false;
  mkdirSync(dirname(link), { recursive: true });
  const suffix = `${process.pid}.${randomBytes(4).toString('hex')}`;
  symlinkSync(target, `${link}.new.${suffix}`);
  // A rename can replace a link but not a folder: a folder is moved away first.
  if (present?.isDirectory()) renameSync(link, `${link}.old.${suffix}`);
  renameSync(`${link}.new.${suffix}`, link);
  rmSync(`${link}.old.${suffix}`, { recursive: true, force: true });
  return true;
}

function sizesOf(directory) {
  const large = filesUnder(directory).filter((path) => !/\.(h|hpp|inc)$/.test(path));
  return Object.fromEntries(large.map((path) => [relative(directory, path), lstatSync(path).size]));
}

function filesUnder(path) {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return [];
  if (!status.isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesUnder(join(path, name)));
}
