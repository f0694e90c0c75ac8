#!/usr/bin/env node
/** The command `longhaul` on any Node >= 18: it hands over to the Node that the set-up pinned, and does nothing else. */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { endWith, launchedEnv } from '../scripts/setup/launcher-watch.mjs';
import { dependencyDirectory, packageRoot } from '../scripts/setup/paths.mjs';
import { findNode } from '../scripts/setup/pinned-node.mjs';

const source = join(packageRoot, 'cli', 'main.ts');
const program = existsSync(source) ? source : join(packageRoot, 'dist', 'cli', 'main.js');
const node = findNode();

if (node === undefined || !existsSync(program) || dependencyDirectory('commander') === undefined) {
  process.stderr.write(`longhaul: the set-up was not done. Run: node ${join(packageRoot, 'scripts', 'setup.mjs')}\n`);
  process.exit(3);
}

const args = [program, ...process.argv.slice(2)];
if (typeof process.execve === 'function' && process.platform !== 'win32') {
  process.execve(node.path, [node.path, ...args], process.env);
} else {
  const child = spawn(node.path, args, { stdio: 'inherit', env: launchedEnv() });
  child.on('error', (error) => {
    process.stderr.write(`longhaul: ${node.path} did not start (${error.message}). Run: npm run setup\n`);
    process.exit(3);
  });
  endWith(child);
}
