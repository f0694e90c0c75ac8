/** Longhaul's engine and its peer: two processes with the same model and number of threads, which work in turns. */

import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '#setup/paths.mjs';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { type BenchModel, benchModel } from './bench-models.ts';
import { JsonProcess } from './json-process.ts';
import { pythonPackages } from './python-packages.ts';

export interface Pair {
  readonly own: JsonProcess;
  readonly peer: JsonProcess;
  /** The peer's name, with versions. */
  readonly name: string;
  readonly parameters: number;
  readonly vocabulary: number;
  readonly cores: number;
}

const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';

function start(python: string, path: string, cores: number): { readonly own: JsonProcess; readonly peer: JsonProcess } {
  const program = fileURLToPath(new URL(`./own-process.${EXTENSION}`, import.meta.url));
  const own = new JsonProcess({
    command: process.execPath,
    args: ['--disable-warning=ExperimentalWarning', program],
    env: { ...process.env, TF_NUM_INTRAOP_THREADS: String(cores) },
  });
  const peer = new JsonProcess({
    command: python,
    args: [join(packageRoot, 'benchmarks', 'engine', 'peer.py')],
    env: { ...process.env, PYTHONPATH: path, LONGHAUL_BENCH_THREADS: String(cores), CUDA_VISIBLE_DEVICES: '' },
  });
  return { own, peer };
}

/** Runs `measure` with both processes, each with the model loaded. Errors: `NoPeer`, `CallFailed`. */
export async function withPair<T>(
  model: BenchModel,
  note: (line: string) => void,
  measure: (pair: Pair) => Promise<T>,
): Promise<T> {
  const { python, path } = await pythonPackages(note);
  const scratch = await mkdtemp(join(tmpdir(), 'longhaul-bench-'));
  const cores = availableParallelism();
  const { own, peer } = start(python, path, cores);
  try {
    const dir = await benchModel(model, scratch);
    const { vocabSize } = await readModelConfig(dir);
    await own.call('load', { dir });
    const { name, parameters } = await peer.call<{ name: string; parameters: number }>('load', { dir, seed: 1 });
    return await measure({ own, peer, name, parameters, vocabulary: vocabSize, cores });
  } finally {
    await Promise.all([own.close(), peer.close()]);
    await rm(scratch, { recursive: true, force: true });
  }
}
