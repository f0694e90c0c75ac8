/** TensorFlow's C library and headers from its PyPI wheel, by version in the cache. They are complete or absent. */

import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, run, which } from '../command.mjs';
import { makeDirectoryOnce } from '../files.mjs';
import { readPins, withPinnedWheel } from '../wheels/pinned-wheels.mjs';

export const TENSORFLOW = '2.21.0';

/** For each variant and processor: the wheels, with the SHA-256 that PyPI publishes. TensorFlow's wheel is first. */
const PINS = fileURLToPath(new URL('../wheels/pins', import.meta.url));

const TAGS = {
  x64: ['manylinux_2_28_x86_64', 'manylinux_2_27_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64'],
  arm64: ['manylinux_2_28_aarch64', 'manylinux_2_27_aarch64', 'manylinux_2_17_aarch64', 'manylinux2014_aarch64'],
};

/** `cuda` if `nvidia-smi` finds a GPU, else `cpu`. `$LONGHAUL_ENGINE` overrides it. */
export function engineVariant(env = process.env) {
  const chosen = env.LONGHAUL_ENGINE;
  if (chosen === 'cpu' || chosen === 'cuda') return chosen;
  if (chosen) throw new Error(`LONGHAUL_ENGINE is ${chosen}: it must be cpu or cuda`);
  const smi = which('nvidia-smi', env);
  return smi !== undefined && ask(smi, ['-L'])?.includes('GPU') ? 'cuda' : 'cpu';
}

/** The folder of the library's variant, whether it exists or not. */
function engineDirectory(cache, variant) {
  return join(cache, 'engine', `tensorflow-${TENSORFLOW}-${variant}-${process.platform}-${process.arch}`);
}

/** Downloads and unpacks the library once: `lib/`, `include/` and, with CUDA, `nvidia/`. Returns its folder. */
export async function makeEngineLibrary(cache, variant, pins = PINS) {
  const path = join(engineDirectory(cache, variant), 'deps');
  const stamp = await makeDirectoryOnce(path, async (aside) => {
    mkdirSync(join(cache, 'downloads'), { recursive: true });
    const downloads = mkdtempSync(join(cache, 'downloads', 'engine-'));
    try {
      return { wheels: await fillLibrary(aside, downloads, readPins(pinsOf(variant, pins))) };
    } finally {
      rmSync(downloads, { recursive: true, force: true });
    }
  });
  return { path, wheels: stamp.wheels };
}

function pinsOf(variant, pins) {
  const file = join(pins, `engine-${variant}-${process.arch}.txt`);
  if (process.platform === 'linux' && existsSync(file)) return file;
  throw new Error(
    `no TensorFlow wheel is pinned for ${variant} on ${process.platform} and ${process.arch}: ` +
      'the engine runs on Linux, x64 (cpu, cuda) or arm64 (cpu; LONGHAUL_ENGINE=cpu)',
  );
}

/** One wheel after the other, since CUDA's wheels have gigabytes. */
async function fillLibrary(directory, downloads, pins) {
  const hashes = {};
  for (const pin of pins) {
    await withPinnedWheel(pin, downloads, platformFlags(), async (wheel, hash) => {
      hashes[basename(wheel)] = hash;
      await run('python3', [fileURLToPath(new URL('../wheels/unpack-wheel.py', import.meta.url)), wheel, directory]);
    });
  }
  return hashes;
}

/** pip selects wheels by these tags, whatever Python runs it. It installs nothing. */
function platformFlags() {
  return [
    '--python-version',
    '3.12',
    '--implementation',
    'cp',
    '--abi',
    'cp312',
    '--abi',
    'none',
    ...TAGS[process.arch].flatMap((tag) => ['--platform', tag]),
  ];
}
