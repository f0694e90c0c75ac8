/** Wheels by their pinned SHA-256: pip's download is used only if a requirements file of the project has its hash. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { CommandFailed, run } from '../command.mjs';
import { hashFile } from '../files.mjs';

/** A download differs from the project's pin. Nothing of it was used. */
export class HashMismatch extends Error {
  constructor(what, remedy) {
    super(`${what}: it is damaged or not genuine, and nothing of it is used; ${remedy}`);
    this.name = 'HashMismatch';
  }
}

/** The pins of a requirements file, in order, each as `{ line, name, hashes }`. */
export function readPins(file) {
  const text = readFileSync(file, 'utf8').replaceAll(/\\\n/g, ' ');
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  return lines.map((line) => ({
    line,
    name: line.split(/[\s;]/, 1)[0],
    hashes: [...line.matchAll(/--hash=sha256:([0-9a-f]{64})/g)].map(([, hash]) => hash),
  }));
}

/**
 * Downloads the wheel of one pin into its own folder below `downloads`, calls `use(path, hash)`, and removes the wheel.
 * `flags`: pip's flags for another platform. Errors: `HashMismatch`; `CommandFailed` if pip finds no wheel.
 */
export async function withPinnedWheel(pin, downloads, flags, use) {
  mkdirSync(downloads, { recursive: true });
  const directory = mkdtempSync(join(downloads, 'wheel-'));
  try {
    const path = await download(pin, directory, flags);
    const hash = await hashFile(path);
    if (!pin.hashes.includes(hash))
      throw mismatch(pin, `${basename(path)} has the SHA-256 ${hash}, not ${pin.hashes.join(' or ')}`);
    return await use(path, hash);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** pip checks the hash too, and stops before it unpacks anything. */
async function download(pin, directory, flags) {
  const file = join(directory, 'requirement.txt');
  writeFileSync(file, `${pin.line}\n`);
  try {
    await run('python3', [
      '-m',
      'pip',
      'download',
      '--require-hashes',
      '-r',
      file,
      '--dest',
      directory,
      '--no-deps',
      '--only-binary=:all:',
      '--quiet',
      '--progress-bar',
      'off',
      '--disable-pip-version-check',
      '--no-cache-dir',
      ...flags,
    ]);
  } catch (error) {
    throw asMismatch(error, pin.name);
  }
  const wheel = readdirSync(directory).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new Error(`pip downloaded no wheel of ${pin.name}`);
  return join(directory, wheel);
}

/** Returns pip's error about another hash as `HashMismatch`, and every other error unchanged. */
export function asMismatch(error, what) {
  const differs = error instanceof CommandFailed && /DO NOT MATCH THE HASHES/i.test(error.message);
  const [, got] = differs ? (/Got\s+([0-9a-f]{64})/.exec(error.message) ?? []) : [];
  return differs
    ? mismatch({ name: what }, `pip's download of ${what} has the SHA-256 ${got ?? '(see above)'}, which is not pinned`)
    : error;
}

function mismatch(pin, what) {
  return new HashMismatch(
    what,
    `run the set-up again, or check the Python index that pip uses (pip config list): the pin is of PyPI's ${pin.name}`,
  );
}
