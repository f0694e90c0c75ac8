/** The npm dependencies: `node_modules` is what `package-lock.json` says, and no package's own script was run. */

import { existsSync, lstatSync, rmSync, symlinkSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../command.mjs';
import { readJson } from '../files.mjs';

/** Installs what the lock file names, unless it is there. Returns what was done, in words. */
export async function installDependencies(root) {
  const lock = readJson(join(root, 'package-lock.json'));
  // Without a lock file the package is somebody's dependency, and their npm installed ours.
  if (lock === undefined) return 'installed by npm';
  const differing = differences(root, lock);
  if (differing.length > 0) {
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: root });
    const left = differences(root, lock);
    if (left.length > 0) throw new Error(`npm ci left these packages out: ${left.slice(0, 5).join(', ')}`);
  }
  linkOwnCommand(root);
  return differing.length > 0 ? `npm ci, ${Object.keys(lock.packages).length - 1} packages` : 'as locked';
}

/**
 * The packages in which `node_modules` and the lock file differ. npm writes its own record of `node_modules` last, so
 * an installation that was cut short has none and differs in everything.
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

/** `npx longhaul` finds the clone's own command at once, where it would otherwise ask the registry for it. */
function linkOwnCommand(root) {
  const link = join(root, 'node_modules', '.bin', 'longhaul');
  if (lstatSync(link, { throwIfNoEntry: false })?.isSymbolicLink() && existsSync(link)) return;
  mkdirSync(join(root, 'node_modules', '.bin'), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(join('..', '..', 'bin', 'longhaul.mjs'), link);
}
