/** The npm dependencies: `node_modules` matches `package-lock.json`, and no package's own script is run. */

import { existsSync, lstatSync, rmSync, symlinkSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../command.mjs';
import { readJson } from '../files.mjs';

/** Installs the lock file's packages if any is missing. Returns what was done, in words. */
export async function installDependencies(root) {
  const lock = readJson(join(root, 'package-lock.json'));
  // Without a lock file Longhaul is a dependency of another package, whose npm has installed Longhaul's dependencies.
  if (lock === undefined) return 'installed by npm';
  const differing = differences(root, lock);
  if (differing.length > 0) {
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: root });
    const left = differences(root, lock);
    if (left.length > 0) throw new Error(`npm ci did not install these packages: ${left.slice(0, 5).join(', ')}`);
  }
  linkOwnCommand(root);
  return differing.length > 0 ? `npm ci, ${Object.keys(lock.packages).length - 1} packages` : 'as locked';
}

/**
 * The packages that differ between `node_modules` and the lock file. npm writes its record of `node_modules` last:
 * after an interrupted installation it is missing, so all packages differ.
 */
export function differences(root, lock) {
  const installed = readJson(join(root, 'node_modules', '.package-lock.json'))?.packages ?? {};
  const wanted = Object.entries(lock.packages).filter(([path]) => path !== '');
  const lacking = wanted.filter(([path, entry]) => {
    const present = installed[path];
    if (present === undefined) return !entry.optional;
    return present.version !== entry.version || present.integrity !== entry.integrity || !existsSync(join(root, path));
  });
  const surplus = Object.keys(installed).filter((path) => lock.packages[path] === undefined);
  return [...lacking.map(([path]) => path), ...surplus];
}

/** Links the clone's own command, so that `npx longhaul` finds it. Otherwise npx would ask the registry. */
function linkOwnCommand(root) {
  const link = join(root, 'node_modules', '.bin', 'longhaul');
  if (lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() && existsSync(link)) return;
  mkdirSync(join(root, 'node_modules', '.bin'), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(join('..', '..', 'bin', 'longhaul.mjs'), link);
}
