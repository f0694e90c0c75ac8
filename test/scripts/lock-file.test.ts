/**
 * Hunts a lock file that `npm ci` refuses on another network: npm leaves an optional package out of it if the present
 * registry lacks that platform's build, and `npm ci` then reports a lock file that is out of sync.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';

interface Entry {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const { packages } = JSON.parse(readFileSync(join(packageRoot, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, Entry>;
};

/** As Node searches: in the package's own folder, then in each parent folder. */
function isLocked(name: string, from: string, among: Readonly<Record<string, Entry>> = packages): boolean {
  const around = from
    .split('/node_modules/')
    .map((_part, index, parts) => parts.slice(0, index + 1).join('/node_modules/'));
  return [...around.filter((folder) => folder !== '').map((folder) => `${folder}/`), ''].some(
    (folder) => among[`${folder}node_modules/${name}`] !== undefined,
  );
}

test('every dependency, those of other platforms too, has a version in the lock file', () => {
  const lacking = Object.entries(packages).flatMap(([path, entry]) =>
    Object.keys({ ...entry.dependencies, ...entry.optionalDependencies })
      .filter((name) => !isLocked(name, path))
      .map((name) => `${name}, which ${path || 'this package'} asks for`),
  );
  expect(lacking).toEqual([]);
  expect(Object.values(packages).filter((entry) => entry.version === undefined)).toHaveLength(0);
});

test("the engine's own lock file, for an installed package, is a complete part of this one", () => {
  const lock = join(packageRoot, 'scripts', 'setup', 'engine', 'lock.json');
  const engine = (
    JSON.parse(readFileSync(lock, 'utf8')) as { packages: Record<string, Entry & { integrity?: string }> }
  ).packages;
  // tfjs uses `long` without naming it.
  expect(engine['']?.dependencies).toEqual({
    '@tensorflow/tfjs-node-gpu': packages['node_modules/@tensorflow/tfjs-node-gpu']?.version,
    long: packages['node_modules/long']?.version,
  });
  for (const [path, { version, integrity, dependencies, optionalDependencies }] of Object.entries(engine)) {
    if (path !== '')
      expect({ version, integrity }, path).toEqual({
        version: packages[path]?.version,
        integrity: (packages[path] as { integrity?: string } | undefined)?.integrity,
      });
    if (path !== '') expect(integrity, path).toMatch(/^sha512-/);
    const lacking = Object.keys({ ...dependencies, ...optionalDependencies }).filter(
      (name) => !isLocked(name, path, engine),
    );
    expect(lacking, path).toEqual([]);
  }
});
