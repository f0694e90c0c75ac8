/** Hunts a library that is damaged, not the published one, or unpacked in part. The real download is the set-up's. */

import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { which } from '../../scripts/setup/command.mjs';
import { engineVariant, makeEngineLibrary } from '../../scripts/setup/engine-library.mjs';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-engine-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

const WHEELS = {
  'tensorflow-cpu': {
    name: 'tensorflow_cpu-2.21.0-cp312-cp312-some_linux.whl',
    files: { 'tensorflow/libtensorflow_cc.so.2': 'cc', 'tensorflow/libtensorflow_framework.so.2': 'framework' },
  },
  tensorflow: {
    name: 'tensorflow-2.21.0-cp312-cp312-some_linux.whl',
    files: {
      'tensorflow/libtensorflow_cc.so.2': 'cc',
      'tensorflow/libtensorflow_framework.so.2': 'framework',
      'tensorflow-2.21.0.dist-info/METADATA':
        'Requires-Dist: numpy>=1.26\nRequires-Dist: nvidia-nccl-cu12<3.0,>=2.27.7; extra == "and-cuda"\n',
    },
  },
  'nvidia-nccl-cu12<3.0,>=2.27.7': {
    name: 'nvidia_nccl_cu12-2.28-py3-none-some_linux.whl',
    files: { 'nvidia/nccl/lib/libnccl.so.2': 'nccl', 'nvidia/nccl/include/nccl.h': 'header' },
  },
} as const;

/** A `python3` whose pip hands out these wheels and notes what it was asked for; everything else is the real one's. */
function fakePip(): string {
  const real = which('python3');
  const wheels = join(directory, 'wheels');
  const bin = join(directory, 'bin');
  for (const made of [wheels, bin]) mkdirSync(made);
  for (const [requirement, { name, files }] of Object.entries(WHEELS)) {
    const code = `import json,sys,zipfile
z = zipfile.ZipFile(sys.argv[1], 'w')
z.writestr('tensorflow/include/tensorflow/c/', '')
z.writestr('tensorflow/include/tensorflow/c/c_api.h', 'header')
z.writestr('tensorflow/include/Eigen/Core', 'not in use')
z.writestr('tensorflow/python/model.py', 'not in use')
for name, content in json.loads(sys.argv[2]).items(): z.writestr(name, content)
z.close()`;
    mkdirSync(join(wheels, requirement));
    execFileSync(real ?? 'python3', ['-c', code, join(wheels, requirement, name), JSON.stringify(files)]);
  }
  writeFileSync(
    join(bin, 'python3'),
    `#!/bin/sh
if [ "$2" != pip ]; then exec ${real} "$@"; fi
echo "$*" >> ${directory}/asked
cp "${wheels}/\${4%==2.21.0}/"* "$6/"
`,
  );
  chmodSync(join(bin, 'python3'), 0o755);
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  return join(directory, 'asked');
}

test('the library is downloaded once, with the platform named, and only what is in use is kept', async () => {
  const asked = fakePip();
  const cache = join(directory, 'cache');
  const first = await makeEngineLibrary(cache, 'cpu');
  const second = await makeEngineLibrary(cache, 'cpu');
  expect(second).toEqual(first);
  const lines = readFileSync(asked, 'utf8').trim().split('\n');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/tensorflow-cpu==2\.21\.0 .*--no-deps --only-binary=:all: .*--python-version 3\.12 .*--platform manylinux_2_27_/);
  expect(readdirSync(first.path).toSorted()).toEqual(['.complete.json', 'include', 'lib']);
  expect(readdirSync(join(first.path, 'include'))).toEqual(['tensorflow']);
  expect(readlinkSync(join(first.path, 'lib', 'libtensorflow.so.2'))).toBe('libtensorflow_cc.so.2');
  expect(readdirSync(join(cache, 'downloads'))).toEqual([]);
});

test('with CUDA, the wheels that TensorFlow asks for lie beside it, with links where its run path looks', async () => {
  fakePip();
  const { path, wheels } = await makeEngineLibrary(join(directory, 'cache'), 'cuda');
  expect(Object.keys(wheels)).toEqual([WHEELS.tensorflow.name, 'nvidia_nccl_cu12-2.28-py3-none-some_linux.whl']);
  expect(readFileSync(join(path, 'lib', 'libnccl.so.2'), 'utf8')).toBe('nccl');
  expect(existsSync(join(path, 'nvidia', 'nccl', 'include'))).toBe(false);
});

test('a wheel with a known name and another content is refused, and leaves nothing', async () => {
  fakePip();
  const known = 'tensorflow_cpu-2.21.0-cp312-cp312-manylinux_2_27_x86_64.whl';
  const folder = join(directory, 'wheels', 'tensorflow-cpu');
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  writeFileSync(join(folder, known), 'something else');
  const cache = join(directory, 'cache');
  await expect(makeEngineLibrary(cache, 'cpu')).rejects.toThrow(`${known} has the SHA-256`);
  expect(readdirSync(join(cache, 'engine', readdirSync(join(cache, 'engine'))[0] ?? ''))).toEqual([]);
  expect(readdirSync(join(cache, 'downloads'))).toEqual([]);
});

test('the variant follows nvidia-smi, and what is asked for goes first', () => {
  const bin = join(directory, 'smi');
  mkdirSync(bin);
  expect(engineVariant({ PATH: bin })).toBe('cpu');
  writeFileSync(join(bin, 'nvidia-smi'), '#!/bin/sh\necho "GPU 0: some card"\n');
  chmodSync(join(bin, 'nvidia-smi'), 0o755);
  expect(engineVariant({ PATH: bin })).toBe('cuda');
  expect(engineVariant({ PATH: bin, LONGHAUL_ENGINE: 'cpu' })).toBe('cpu');
  expect(() => engineVariant({ PATH: bin, LONGHAUL_ENGINE: 'tpu' })).toThrow('tpu');
});
