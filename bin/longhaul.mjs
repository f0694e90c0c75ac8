#!/usr/bin/env node
/** The command `longhaul` on any Node >= 18: it starts the program with the Node that the set-up pinned. */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { endWith, launchedEnv } from '../scripts/setup/launcher-watch.mjs';
import { dependencyDirectory, packageRoot, withCompileCache } from '../scripts/setup/paths.mjs';
import { findNode, OLDEST_NODE } from '../scripts/setup/pinned-node.mjs';

const source = join(packageRoot, 'cli', 'main.ts');
const program = existsSync(source) ? source : join(packageRoot, 'dist', 'cli', 'main.js');
const node = findNode();

const isClone = existsSync(join(packageRoot, 'package-lock.json'));
if (node === undefined || !existsSync(program) || dependencyDirectory('commander') === undefined) {
  const old =
    `this is Node.js ${process.versions.node}, and ${OLDEST_NODE.join('.')} or later is required. ` +
    'The Node.js that comes with longhaul ' +
    'is an optional dependency and was not installed: install longhaul again with optional dependencies, ' +
    'or use a newer Node.js';
  const undone = `the set-up was not done. Run: node ${join(packageRoot, 'scripts', 'setup.mjs')}`;
  process.stderr.write(`longhaul: ${node === undefined && !isClone ? old : undone}\n`);
  process.exit(3);
}

const args = [program, ...process.argv.slice(2)];
const env = withCompileCache();
if (typeof process.execve === 'function' && process.platform !== 'win32') {
  process.execve(node.path, [node.path, ...args], env);
} else {
  const child = spawn(node.path, args, { stdio: 'inherit', env: launchedEnv(env) });
  child.on('error', (error) => {
    process.stderr.write(
      `longhaul: ${node.path} did not start (${error.message}). Run: ` +
        `${isClone ? 'npm run setup' : 'npm install longhaul'}\n`,
    );
    process.exit(3);
  });
  endWith(child);
}
