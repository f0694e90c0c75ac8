/**
 * Throw-away Python environments that read exports, one for each project: pinned packages from PyPI in virtual
 * environments of the cache, made once. What cannot be installed is reported and counted, never passed over.
 */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheDirectory } from '#setup/paths.mjs';

export interface Environment {
  /** What it must run. */
  readonly part: string;
  readonly packages: readonly string[];
  /** Their own pins would fetch other versions of PyTorch, or of what trains. */
  readonly withoutDependencies?: readonly string[];
  /** True if it uses the PyTorch that the engine is compared with. */
  readonly torch?: boolean;
  /** Default: `python3`. */
  readonly python?: string;
}

const ENVIRONMENTS: readonly Environment[] = [
  { part: 'datasets', packages: ['datasets==5.2.0'] },
  { part: 'tinker', packages: ['tinker==0.38.0'] },
  {
    part: 'verl',
    packages: [
      'ray==2.57.0',
      'hydra-core==1.3.8',
      'codetiming==1.4.0',
      'pandas==3.1.1',
      'pybase64==1.5.1',
      'pyvers==0.1.0',
      'cloudpickle==3.1.3',
      'orjson==3.13.0',
    ],
    withoutDependencies: ['verl==0.9.1', 'tensordict==0.10.0'],
    torch: true,
  },
  {
    part: 'skyrl',
    python: 'python3.12',
    packages: [
      'ray==2.57.0',
      'hydra-core==1.3.8',
      'loguru==0.7.3',
      'jaxtyping==0.3.11',
      'skyrl-gym==0.4.0',
      'transformers==5.10.4',
      'torch==2.15.0',
      'tensordict==0.10.0',
      'peft==0.18.1',
      'pybase64==1.5.1',
      'cloudpathlib==0.26.0',
      'torchdata==0.11.0',
      'datasets==5.2.0',
      'aiohttp==3.14.5',
      'func_timeout==4.3.5',
    ],
    withoutDependencies: ['skyrl==0.4.0'],
  },
];

export interface Reading {
  readonly part: string;
  /** Why it was not checked; absent: it was read. */
  readonly missing?: string;
}

/** The first line of what a command says when it fails: pip's and a shell's others are advice. */
const saidBy = (error: unknown): string => {
  const { stderr, message } = error as { stderr?: Buffer; message: string };
  const said = (stderr?.toString() ?? '').split('\n').find((line) => line.trim() !== '');
  return (said ?? message).trim().slice(0, 200);
};

function interpreterOf({ python = 'python3', packages, withoutDependencies = [] }: Environment): string {
  const name = createHash('sha256')
    .update(JSON.stringify([python, packages, withoutDependencies]))
    .digest('hex')
    .slice(0, 16);
  const venv = join(cacheDirectory(), 'interop', name);
  const done = join(venv, 'installed');
  const interpreter = join(venv, 'bin', 'python');
  // A link to a Python that is gone is none.
  if (existsSync(done) && existsSync(interpreter)) return interpreter;
  if (process.env['CI'] !== undefined) throw new Error('not installed before, and CI fetches nothing for it');
  // What another environment has would count as installed here.
  const { PYTHONPATH: _, ...env } = process.env;
  const run = (file: string, args: readonly string[]) =>
    execFileSync(file, args, { stdio: 'pipe', timeout: 900_000, env });
  rmSync(venv, { recursive: true, force: true });
  run(python, ['-m', 'venv', venv]);
  run(interpreter, ['-m', 'pip', 'install', '-q', ...packages]);
  if (withoutDependencies.length > 0)
    run(interpreter, ['-m', 'pip', 'install', '-q', '--no-deps', ...withoutDependencies]);
  writeFileSync(done, '');
  return interpreter;
}

/**
 * Lets every project do its part. `read` runs it, for exports exports.py, and throws what it says. `env` has the
 * folders of PyTorch in `PYTHONPATH`. Errors: those of `read`: an installed package that refuses an export.
 */
export function readByProjects(
  env: NodeJS.ProcessEnv,
  read: (python: string, part: string, env: NodeJS.ProcessEnv) => void,
  environments: readonly Environment[] = ENVIRONMENTS,
): Reading[] {
  return environments.map((one) => {
    let python: string;
    try {
      python = interpreterOf(one);
    } catch (error) {
      return { part: one.part, missing: saidBy(error) };
    }
    const { PYTHONPATH: _, ...rest } = env;
    read(python, one.part, one.torch === true ? env : rest);
    return { part: one.part };
  });
}
