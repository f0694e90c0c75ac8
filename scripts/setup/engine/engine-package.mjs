/**
 * The engine's npm package. Its own installer would download files on every `npm install longhaul`. Therefore only a
 * clone has it as a dependency; an installed Longhaul gets it from `longhaul setup`, in the cache, by a lock file and
 * without scripts.
 */

import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../command.mjs';
import { hashInputs, makeDirectoryOnce, readJson, swapLink } from '../files.mjs';
import { cacheDirectory, packageRoot } from '../paths.mjs';

export const ENGINE_PACKAGE = '@tensorflow/tfjs-node-gpu';

/** Something that the set-up makes is missing. Exit code 3. */
export class NotSetUp extends Error {
  constructor(what) {
    super(`${what} is missing. Run: npx longhaul setup`);
    this.name = 'NotSetUp';
  }
}

/** A part of a clone's lock file, with the same versions and hashes. */
const LOCK = fileURLToPath(new URL('lock.json', import.meta.url));

/** Variables of an npm that started this process: they would change where the package is installed. */
const FOREIGN =
  /^npm_(package_|lifecycle_|config_(global|location|prefix|local_prefix|workspace|workspaces|include_workspace_root|dry_run|package_lock|omit|only|production|save.*)$)/i;

/** The folder of the engine's package. `undefined` if the set-up was not done. */
export function findEngine(root = packageRoot, cache = cacheDirectory()) {
  return [ownPlace(root), join(cachedPlace(root, cache), 'node_modules', ENGINE_PACKAGE)].find((directory) =>
    existsSync(join(directory, 'package.json')),
  );
}

/** In a clone: the package that `npm ci` installed. A copy in a parent folder is never used. */
function ownPlace(root) {
  return join(root, 'node_modules', ENGINE_PACKAGE);
}

/** A link to the package that `longhaul setup` made last for this version's sources, in this machine's variant. */
function cachedPlace(root, cache) {
  const inputs = [LOCK, join(root, 'trainer', 'native'), fileURLToPath(new URL('engine-binding.mjs', import.meta.url))];
  return join(cache, 'engine', `package-${hashInputs(inputs, root).slice(0, 16)}`);
}

/** Installs the package beside its library, unless a clone's npm has installed it. Returns its folder. */
export async function makeEnginePackage(root, cache, library) {
  if (existsSync(ownPlace(root))) return ownPlace(root);
  const link = cachedPlace(root, cache);
  const path = join(library.path, '..', link.slice(link.lastIndexOf('package-')));
  await makeDirectoryOnce(path, async (aside) => {
    const lock = readJson(LOCK);
    writeFileSync(join(aside, 'package-lock.json'), JSON.stringify(lock));
    writeFileSync(join(aside, 'package.json'), JSON.stringify({ ...lock.packages[''], private: true }));
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !FOREIGN.test(name) && name !== 'NODE_ENV'),
    );
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', aside], { cwd: aside, env });
    return {};
  });
  swapLink(path, link);
  return join(path, 'node_modules', ENGINE_PACKAGE);
}
