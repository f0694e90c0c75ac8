/** Python packages that Longhaul is compared with: installed once per version in the cache, either whole or not. */

import { delimiter, join } from 'node:path';
import { ask, run, which } from '#setup/command.mjs';
import { hashFile, makeDirectoryOnce } from '#setup/files.mjs';
import { cacheDirectory, packageRoot } from '#setup/paths.mjs';
import { asMismatch, HashMismatch } from '#setup/wheels/pinned-wheels.mjs';
import { withLock } from '#setup/process-lock.mjs';

/** A requirements file that pins each package and its dependencies to a version and the SHA-256 of its wheels. */
interface Pinned {
  readonly file: string;
  /** Their names in messages. */
  readonly packages: string;
  readonly flags: readonly string[];
  readonly size: string;
}

const pinsOf = (name: string): string => join(packageRoot, 'benchmarks', 'engine', name);
const PEER: Pinned = {
  file: pinsOf('peer-packages.txt'),
  packages: 'torch and transformers',
  flags: [],
  size: 'some gigabytes',
};
/** What peft needs besides those; without `--no-deps`, `pip` would download PyTorch again. */
const PEFT: Pinned = {
  file: pinsOf('peft-packages.txt'),
  packages: 'peft',
  flags: ['--no-deps'],
  size: 'some megabytes',
};

/** The machine has no Python, or pip could not install the peer's packages. */
export class NoPeer extends Error {
  override readonly name = 'NoPeer';
}

export interface PythonPackages {
  readonly python: string;
  /** For `PYTHONPATH`. */
  readonly path: string;
}

/** The first call downloads some gigabytes: PyPI's PyTorch for Linux includes CUDA. Errors: `NoPeer`. */
export async function pythonPackages(note: (line: string) => void): Promise<PythonPackages> {
  const python = which('python3', process.env);
  if (python === undefined)
    throw new NoPeer('python3 is not on the PATH; install it: sudo apt-get install -y python3 python3-pip');
  return { python, path: await installed(python, PEER, note) };
}

/** The same packages with peft. Errors: `NoPeer`. */
export async function pythonPackagesWithPeft(note: (line: string) => void): Promise<PythonPackages> {
  const { python, path } = await pythonPackages(note);
  return { python, path: [await installed(python, PEFT, note), path].join(delimiter) };
}

/** The folder of these packages, named by their versions and this Python's. */
async function installed(
  python: string,
  { file, packages, flags, size }: Pinned,
  note: (line: string) => void,
): Promise<string> {
  const tag = ask(python, ['-c', 'import sys; print("cp%d%d" % sys.version_info[:2])'])?.trim() ?? 'python';
  const path = join(
    cacheDirectory(process.env),
    'bench',
    `${packages.split(' ')[0]}-${(await hashFile(file)).slice(0, 16)}-${tag}`,
  );
  await withLock(
    `${path}.lock`,
    () => note('bench   waiting for another process that installs the peer'),
    () =>
      makeDirectoryOnce(path, async (aside) => {
        note(`bench   installing ${packages} into ${path} (${size}, once)`);
        const pins = ['--require-hashes', '--only-binary=:all:', '-r', file];
        try {
          await run(python, [
            '-m',
            'pip',
            'install',
            '--quiet',
            '--disable-pip-version-check',
            ...flags,
            '--target',
            aside,
            ...pins,
          ]);
        } catch (error) {
          const cause = asMismatch(error, packages);
          if (cause instanceof HashMismatch) throw new NoPeer(cause.message, { cause });
          throw new NoPeer(`pip could not install ${packages}; check that pip reaches its index, and try again`, {
            cause,
          });
        }
        return {};
      }),
  );
  return path;
}
