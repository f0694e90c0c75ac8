/** Hunts a library that is damaged, not the published one, or incomplete. Only the set-up makes the real download. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { which } from '../../scripts/setup/command.mjs';
import { engineVariant, makeEngineLibrary } from '../../scripts/setup/engine/engine-library.mjs';

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
    files: { 'tensorflow/libtensorflow_cc.so.2': 'cc', 'tensorflow/libtensorflow_framework.so.2': 'framework' },
  },
  'nvidia-nccl-cu12': {
    name: 'nvidia_nccl_cu12-2.28-py3-none-some_linux.whl',
    files: { 'nvidia/nccl/lib/libnccl.so.2': 'nccl', 'nvidia/nccl/include/nccl.h': 'header' },
  },
} as const;
const VARIANTS = { cpu: ['tensorflow-cpu'], cuda: ['tensorflow', 'nvidia-nccl-cu12'] } as const;

/** A `python3` whose pip provides these wheels unchecked and records its arguments. The real one does all else. */
function fakePip(): { readonly asked: string; readonly pins: string } {
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
echo "$* : $(cat "$6")" >> ${directory}/asked
name=$(sed 's/==.*//' "$6")
cp "${wheels}/$name/"* "$8/"
`,
  );
  chmodSync(join(bin, 'python3'), 0o755);
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  const pins = join(directory, 'pins');
  mkdirSync(pins);
  for (const [variant, names] of Object.entries(VARIANTS)) {
    const lines = names.map((name) => `${name}==2.21.0 --hash=sha256:${hashOf(join(wheels, name, WHEELS[name].name))}`);
    writeFileSync(join(pins, `engine-${variant}-${process.arch}.txt`), `# made for a test\n${lines.join('\n')}\n`);
  }
  return { asked: join(directory, 'asked'), pins };
}

const hashOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

test('the library is downloaded once, for the named platform, and only used files are kept', async () => {
  const { asked, pins } = fakePip();
  const cache = join(directory, 'cache');
  const first = await makeEngineLibrary(cache, 'cpu', pins);
  const second = await makeEngineLibrary(cache, 'cpu', pins);
  expect(second).toEqual(first);
  const lines = readFileSync(asked, 'utf8').trim().split('\n');
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(
    /--require-hashes .*--no-deps --only-binary=:all: .*--python-version 3\.12 .*--platform manylinux_2_27_.* : tensorflow-cpu==2\.21\.0 --hash=sha256:[0-9a-f]{64}$/,
  );
  expect(readdirSync(first.path).toSorted()).toEqual(['.complete.json', 'include', 'lib']);
  expect(readdirSync(join(first.path, 'include'))).toEqual(['tensorflow']);
  expect(readlinkSync(join(first.path, 'lib', 'libtensorflow.so.2'))).toBe('libtensorflow_cc.so.2');
  expect(readdirSync(join(cache, 'downloads'))).toEqual([]);
});

test("with CUDA, the wheels that TensorFlow requires are beside it, with links in the library's run path", async () => {
  const { pins } = fakePip();
  const { path, wheels } = await makeEngineLibrary(join(directory, 'cache'), 'cuda', pins);
  expect(Object.keys(wheels)).toEqual([WHEELS.tensorflow.name, 'nvidia_nccl_cu12-2.28-py3-none-some_linux.whl']);
  expect(readFileSync(join(path, 'lib', 'libnccl.so.2'), 'utf8')).toBe('nccl');
  expect(existsSync(join(path, 'nvidia', 'nccl', 'include'))).toBe(false);
});

test('a wheel with other content than the pinned one is refused and leaves nothing', async () => {
  const { pins } = fakePip();
  writeFileSync(join(directory, 'wheels', 'tensorflow-cpu', WHEELS['tensorflow-cpu'].name), 'something else');
  const cache = join(directory, 'cache');
  await expect(makeEngineLibrary(cache, 'cpu', pins)).rejects.toThrow(
    `${WHEELS['tensorflow-cpu'].name} has the SHA-256`,
  );
  expect(readdirSync(join(cache, 'engine', readdirSync(join(cache, 'engine'))[0] ?? ''))).toEqual([]);
  expect(readdirSync(join(cache, 'downloads'))).toEqual([]);
});

test('a variant without a pin is not downloaded', async () => {
  const { asked } = fakePip();
  const empty = join(directory, 'empty');
  mkdirSync(empty);
  await expect(makeEngineLibrary(join(directory, 'cache'), 'cuda', empty)).rejects.toThrow(
    'no TensorFlow wheel is pinned for cuda',
  );
  expect(existsSync(asked)).toBe(false);
});

test('the variant follows nvidia-smi, unless LONGHAUL_ENGINE sets it', () => {
  const bin = join(directory, 'smi');
  mkdirSync(bin);
  expect(engineVariant({ PATH: bin })).toBe('cpu');
  writeFileSync(join(bin, 'nvidia-smi'), '#!/bin/sh\necho "GPU 0: some card"\n');
  chmodSync(join(bin, 'nvidia-smi'), 0o755);
  expect(engineVariant({ PATH: bin })).toBe('cuda');
  expect(engineVariant({ PATH: bin, LONGHAUL_ENGINE: 'cpu' })).toBe('cpu');
  expect(() => engineVariant({ PATH: bin, LONGHAUL_ENGINE: 'tpu' })).toThrow('tpu');
});
