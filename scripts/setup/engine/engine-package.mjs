/**
 * The engine's npm package, whose own installer would download on every `npm install longhaul`: a clone has it among its
 * dependencies, an installed Longhaul gets it from `longhaul setup`, in the cache, by a lock file and without any script.
 */

import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../command.mjs';
import { hashInputs, makeDirectoryOnce, readJson, swapLink } from '../files.mjs';
import { cacheDirectory, packageRoot } from '../paths.mjs';

export const ENGINE_PACKAGE = '@tensorflow/tfjs-node-gpu';

/** What the set-up makes is missing. Exit code 3. */
export class NotSetUp extends Error {
  constructor(what) {
    super(`${what} is missing. Run: npx longhaul setup`);
    this.name = 'NotSetUp';
  }
}

/** Part of the lock file of a clone: the same versions, the same hashes. */
const LOCK = fileURLToPath(new URL('lock.json', import.meta.url));

/** Variables of the npm that may have started us, which say where it installs: not where we do. */
const FOREIGN =
  /^npm_(package_|lifecycle_|config_(global|location|prefix|local_prefix|workspace|workspaces|include_workspace_root|dry_run|package_lock|omit|only|production|save.*)$)/i;

/** The engine's package; `undefined` where the set-up was not done. */
export function findEngine(root = packageRoot, cache = cacheDirectory()) {
  return [ownPlace(root), join(cachedPlace(root, cache), 'node_modules', ENGINE_PACKAGE)].find((directory) =>
    existsSync(join(directory, 'package.json')),
  );
}

/** In a clone: what `npm ci` put there. A user's own copy, farther up, is never taken. */
function ownPlace(root) {
  return join(root, 'node_modules', ENGINE_PACKAGE);
}

/** A link to the one that `longhaul setup` made last for what this Longhaul is made of: its variant is this machine's. */
function cachedPlace(root, cache) {
  const inputs = [LOCK, join(root, 'trainer', 'native'), fileURLToPath(new URL('engine-binding.mjs', import.meta.url))];
  return join(cache, 'engine', `package-${hashInputs(inputs, root).slice(0, 16)}`);
}

/** Installs it where a clone's npm has not, beside the library that it will be linked to. Returns its folder. */
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
