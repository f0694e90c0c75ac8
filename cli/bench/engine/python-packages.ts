/** Packages of Python's that Longhaul is compared with: installed once under their versions in the cache, whole or absent. */

import { delimiter, join } from 'node:path';
import { ask, run, which } from '#setup/command.mjs';
import { makeDirectoryOnce } from '#setup/files.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import { withLock } from '#setup/process-lock.mjs';

export const REQUIREMENTS = ['torch==2.15.0', 'transformers==5.23.0', 'numpy'] as const;
/** What peft wants beyond those; `pip` would fetch PyTorch once more for them. */
const PEFT = ['peft==0.21.2', 'accelerate==1.15.0', 'psutil==7.2.2'] as const;

/** The machine has no Python, or pip could not install what the peer needs. */
export class NoPeer extends Error {
  override readonly name = 'NoPeer';
}

export interface PythonPackages {
  readonly python: string;
  /** For `PYTHONPATH`. */
  readonly path: string;
}

/** Some gigabytes on a first call: PyPI's PyTorch for Linux brings CUDA along. Errors: `NoPeer`. */
export async function pythonPackages(note: (line: string) => void): Promise<PythonPackages> {
  const python = which('python3', process.env);
  if (python === undefined) throw new NoPeer('python3 is not on the PATH; install it: sudo apt-get install -y python3 python3-pip');
  return { python, path: await installed(python, REQUIREMENTS, [], 'some gigabytes', note) };
}

/** The same with peft. Errors: `NoPeer`. */
export async function pythonPackagesWithPeft(note: (line: string) => void): Promise<PythonPackages> {
  const { python, path } = await pythonPackages(note);
  return { python, path: [await installed(python, PEFT, ['--no-deps'], 'some megabytes', note), path].join(delimiter) };
}

/** The folder of these packages. */
async function installed(python: string, packages: readonly string[], flags: readonly string[], size: string, note: (line: string) => void): Promise<string> {
  const tag = ask(python, ['-c', 'import sys; print("cp%d%d" % sys.version_info[:2])'])?.trim() ?? 'python';
  const name = [...packages.map((one) => one.replaceAll('==', '-')), tag].join('-');
  const path = join(cacheDirectory(process.env), 'bench', name);
  await withLock(`${path}.lock`, () => note('bench   waiting for another one that installs the peer'), () =>
    makeDirectoryOnce(path, async (aside) => {
      note(`bench   installs ${packages.join(', ')} into ${path} (${size}, once)`);
      try {
        await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...flags, '--target', aside, ...packages]);
      } catch (error) {
        throw new NoPeer(`pip could not install ${packages.join(' and ')}; try again, or see whether pip reaches its index`, { cause: error });
      }
      return {};
    }),
  );
  return path;
}
