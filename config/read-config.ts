/** Reads a run's configuration from a YAML file and the command line. A wrong one is refused before any work. */

import { readFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { parseDocument } from 'yaml';
import { UserInputError } from '../protocol/user-input-error.ts';
import { resolveRunConfig, RUN_ID } from './run-config.ts';
import { TINKER } from './tinker-policy.ts';
import { unreadable } from './unreadable.ts';
import { modelUri } from '../trainer/hub/hub-id.ts';
import type { RunConfig } from '../protocol/run-config.ts';

export interface ConfigOptions {
  readonly runId?: string;
  /** Assignments `a.b=c`, with the value in YAML. */
  readonly set?: readonly string[];
}

export type Tree = Record<string, unknown>;

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Errors: `SyntaxError` with one line on the problem and the line of `text`; also for an unknown tag, since its value
 * would be read as a string.
 */
function parsed(text: string): unknown {
  const document = parseDocument(text);
  const [problem] = [...document.errors, ...document.warnings];
  if (problem) {
    const [at] = problem.linePos ?? [];
    const line = (at === undefined ? '' : (text.split('\n')[at.line - 1] ?? '')).trim().slice(0, 80);
    throw new SyntaxError(
      `${problem.message.split('\n')[0]?.replace(/:$/, '')}${line === '' ? '' : `: ${JSON.stringify(line)}`}`,
    );
  }
  return document.toJS();
}

async function readTree(path: string): Promise<Tree> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UserInputError('CONFIG', path, `give a YAML file that can be read: ${unreadable(error)?.why ?? 'error'}`);
  }
  let tree: unknown;
  try {
    tree = parsed(text);
  } catch (error) {
    throw new UserInputError('CONFIG', path, `fix its YAML: ${(error as Error).message}`);
  }
  if (!isTree(tree)) throw new UserInputError('CONFIG', path, 'give a YAML mapping of settings');
  return tree;
}

function settingOf(assignment: string, text: string): unknown {
  try {
    return parsed(text);
  } catch (error) {
    throw new UserInputError('--set', assignment, `fix the YAML of its value: ${(error as Error).message}`);
  }
}

/** The entry's position. Errors: `UserInputError` if the list has no such entry. */
function entryOf(list: readonly unknown[], key: string, path: string, assignment: string): number {
  if (/^\d+$/.test(key) && Number(key) < list.length) return Number(key);
  const entries = list.length === 0 ? 'no entry' : `the entries ${path}.0 to ${path}.${list.length - 1}`;
  throw new UserInputError(
    '--set',
    assignment,
    `${path} is a list with ${entries}: name one of them, or set ${path}=[…]`,
  );
}

/** `tree` with one setting changed, along its dotted path; entries of a list are counted from 0. */
function assigned(tree: Tree, assignment: string): Tree {
  const sign = assignment.indexOf('=');
  if (sign < 1) throw new UserInputError('--set', assignment, 'write it as a.b=c');
  const path = assignment.slice(0, sign).split('.');
  if (path.includes('')) throw new UserInputError('--set', assignment, 'write it as a.b=c');
  const value = settingOf(assignment, assignment.slice(sign + 1));
  const place = (node: unknown, at: number): unknown => {
    const key = path[at];
    if (key === undefined) return value;
    if (Array.isArray(node))
      return node.with(entryOf(node, key, path.slice(0, at).join('.'), assignment), place(node[Number(key)], at + 1));
    const known = isTree(node) ? node : {};
    return { ...known, [key]: place(known[key], at + 1) };
  };
  return place(tree, 0) as Tree;
}

/** The settings of a YAML file, overridden by those of the command line. Errors: `UserInputError`. */
export async function readSettings(path: string, set: readonly string[] = []): Promise<Tree> {
  let tree = await readTree(path);
  for (const assignment of set) tree = assigned(tree, assignment);
  return tree;
}

/**
 * The default name of a run or an eval: the file's name. Errors: `UserInputError` for `field` if it cannot be one.
 */
export function nameOfFile(path: string, field: 'run' | 'eval', allowed: RegExp): string {
  const name = basename(path).replace(/\.ya?ml$/, '');
  if (allowed.test(name)) return name;
  throw new UserInputError(
    field,
    name,
    `give --${field}-id NAME, --set ${field}=NAME, or ${field}: NAME in the file: the file's own name has other ` +
      'characters than letters, digits, dot, dash and underscore, or is too long',
  );
}

/** `tree` with the string at `path`, if there is one, changed by `place`. */
function placed(tree: Tree, [key = '', ...rest]: readonly string[], place: (text: string) => string): Tree {
  const value = tree[key];
  if (rest.length > 0) return isTree(value) ? { ...tree, [key]: placed(value, rest, place) } : tree;
  return typeof value === 'string' && value !== '' ? { ...tree, [key]: place(value) } : tree;
}

/**
 * The resolved configuration. Relative paths of policies, modules and tasks start at the file's folder, `dir` at `cwd`.
 * The default of the run id is the file's name.
 * Errors: `UserInputError` naming the field, its value and the remedy.
 */
export async function readRunConfig(path: string, options: ConfigOptions, cwd: string): Promise<RunConfig> {
  const folder = dirname(resolve(cwd, path));
  const model = (text: string) => modelUri(text, folder);
  const given = await readSettings(path, options.set);
  if ('policies' in given && !('policy' in given))
    throw new UserInputError('CONFIG', path, "give a run's: this describes an eval, for npx longhaul eval");
  const { policy } = given;
  // The base model of a Tinker server is a name there.
  const at = isTree(policy) && policy['backend'] === TINKER ? ['server', 'tokenizer'] : ['base'];
  let tree = placed(given, ['policy', ...at], model);
  tree = placed(tree, ['algorithm', 'critic', 'base'], model);
  const run = options.runId ?? tree['run'] ?? nameOfFile(path, 'run', RUN_ID);
  return resolveRunConfig({ ...tree, run }, cwd, folder);
}
