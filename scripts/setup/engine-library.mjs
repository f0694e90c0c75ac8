/** TensorFlow's C library and headers, taken out of its PyPI wheel: whole in the cache, under their version, or absent. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ask, run, which } from './command.mjs';
import { hashFile, makeDirectoryOnce } from './files.mjs';

export const TENSORFLOW = '2.21.0';

/** SHA-256 of the wheels as published; pip compares every wheel with the index's own hash besides. */
const KNOWN = {
  'tensorflow_cpu-2.21.0-cp312-cp312-manylinux_2_27_x86_64.whl':
    'dcc8afd32930e42d5296b6ee19078b773706830af4ea97fbe503b9f5e0f820cb',
  'tensorflow-2.21.0-cp312-cp312-manylinux_2_27_x86_64.whl':
    'b3b95643c4e70eb925839938fb35cbe142f317ec84af6844ee61513713bb13c0',
};

const TAGS = {
  x64: ['manylinux_2_28_x86_64', 'manylinux_2_27_x86_64', 'manylinux_2_17_x86_64', 'manylinux2014_x86_64'],
  arm64: ['manylinux_2_28_aarch64', 'manylinux_2_27_aarch64', 'manylinux_2_17_aarch64', 'manylinux2014_aarch64'],
};

/** `cuda` where an NVIDIA GPU answers, else `cpu`; `$LONGHAUL_ENGINE` decides otherwise. */
export function engineVariant(env = process.env) {
  const chosen = env.LONGHAUL_ENGINE;
  if (chosen === 'cpu' || chosen === 'cuda') return chosen;
  if (chosen) throw new Error(`LONGHAUL_ENGINE is ${chosen}: it must be cpu or cuda`);
  const smi = which('nvidia-smi', env);
  return smi !== undefined && ask(smi, ['-L'])?.includes('GPU') ? 'cuda' : 'cpu';
}

/** Where the library of this machine's variant is kept, made or not. */
export function engineDirectory(cache, variant) {
  return join(cache, 'engine', `tensorflow-${TENSORFLOW}-${variant}-${process.platform}-${process.arch}`);
}

/** Downloads and unpacks the library once: `lib/`, `include/` and, with CUDA, `nvidia/`. Returns its folder. */
export async function makeEngineLibrary(cache, variant) {
  const path = join(engineDirectory(cache, variant), 'deps');
  const stamp = await makeDirectoryOnce(path, async (aside) => {
    mkdirSync(join(cache, 'downloads'), { recursive: true });
    const downloads = mkdtempSync(join(cache, 'downloads', 'engine-'));
    try {
      return { wheels: await fillLibrary(aside, downloads, variant) };
    } finally {
      rmSync(downloads, { recursive: true, force: true });
    }
  });
  return { path, wheels: stamp.wheels };
}

async function fillLibrary(directory, downloads, variant) {
  await download(`${variant === 'cuda' ? 'tensorflow' : 'tensorflow-cpu'}==${TENSORFLOW}`, downloads);
  const [wheel] = readdirSync(downloads).filter((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new Error('pip downloaded no TensorFlow wheel');
  const hashes = { [wheel]: await checkedHash(join(downloads, wheel), wheel) };
  const requirements = await unpack(join(downloads, wheel), directory);
  if (variant === 'cuda') {
    for (const requirement of requirements) {
      rmSync(downloads, { recursive: true, force: true });
      await download(requirement, downloads);
      for (const name of readdirSync(downloads)) {
        hashes[name] = await checkedHash(join(downloads, name), name);
        await unpack(join(downloads, name), directory);
      }
    }
  }
  return hashes;
}

/** pip picks by the tags named here, whatever Python runs it, and installs nothing. */
async function download(requirement, directory) {
  const tags = TAGS[process.arch];
  if (process.platform !== 'linux' || tags === undefined) {
    throw new Error(`no TensorFlow wheel is known for ${process.platform} on ${process.arch}: Linux on x64 or arm64`);
  }
  mkdirSync(directory, { recursive: true });
  await run('python3', [
    '-m', 'pip', 'download', requirement, '--dest', directory, '--no-deps', '--only-binary=:all:', '--quiet',
    '--progress-bar', 'off', '--disable-pip-version-check', '--no-cache-dir',
    '--python-version', '3.12', '--implementation', 'cp', '--abi', 'cp312', '--abi', 'none',
    ...tags.flatMap((tag) => ['--platform', tag]),
  ]);
}

async function checkedHash(path, name) {
  const hash = await hashFile(path);
  if (KNOWN[name] !== undefined && KNOWN[name] !== hash) {
    throw new Error(`${name} has the SHA-256 ${hash}, not ${KNOWN[name]} as published: it is damaged or not genuine`);
  }
  return hash;
}

/** Unpacks the parts in use and returns the CUDA packages that the wheel asks for, as requirements. */
async function unpack(wheel, directory) {
  const printed = await run('python3', [fileURLToPath(new URL('unpack-wheel.py', import.meta.url)), wheel, directory]);
  return JSON.parse(printed);
}
