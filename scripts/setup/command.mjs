/** Runs other programs for the set-up. A failure is an error with the command and the end of its output. */

import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Things that the set-up needs and cannot make: `missing` has `{ what, remedy }` for each. Exit code 3. */
export class MissingPrerequisites extends Error {
  constructor(missing) {
    super(`missing: ${missing.map(({ what, remedy }) => `${what} (${remedy})`).join('; ')}`);
    this.name = 'MissingPrerequisites';
    this.missing = missing;
  }
}

/** A program that the set-up ran ended with an error. */
export class CommandFailed extends Error {
  constructor(command, exitCode, output) {
    super(`${command.slice(0, 200)} ended with ${exitCode}\n${ends(output)}`);
    this.name = 'CommandFailed';
    this.command = command;
    this.exitCode = exitCode;
  }
}

/** The start and the end of an output: some programs print the cause of an error first, some last. */
function ends(output) {
  const lines = output.trim().split('\n');
  return lines.length <= 30 ? lines.join('\n') : [...lines.slice(0, 12), '…', ...lines.slice(-15)].join('\n');
}

/** The full path of a program on PATH, or `undefined`. */
export function which(name, env = process.env) {
  for (const directory of (env.PATH ?? '').split(delimiter)) {
    const path = join(directory, name);
    try {
      accessSync(path, constants.X_OK);
      if (directory !== '' && statSync(path).isFile()) return path;
    } catch {
      // Not here: the next directory.
    }
  }
  return undefined;
}

/** The stdout of a short command. `undefined` if it failed, is missing, or took longer than `timeoutMs`. */
export function ask(command, args, timeoutMs = 20_000) {
  const result = spawnSync(command, args, { encoding: 'utf8', timeout: timeoutMs, stdio: ['ignore', 'pipe', 'pipe'] });
  return result.status === 0 ? result.stdout.trim() : undefined;
}

/** Runs a command to its end and returns its stdout. Errors: `CommandFailed`. */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    const stdout = [];
    const both = [];
    child.stdout.on('data', (chunk) => {
      stdout.push(chunk);
      both.push(chunk);
    });
    child.stderr.on('data', (chunk) => both.push(chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(Buffer.concat(stdout).toString());
      else reject(new CommandFailed([command, ...args].join(' '), code ?? signal, Buffer.concat(both).toString()));
    });
  });
}
