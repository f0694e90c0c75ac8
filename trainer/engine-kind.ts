/**
 * The kind of this process's engine: everything that its products depend on, beside their inputs. Sampling by the
 * compiled decoder adds in one order on every processor, so it depends on the build alone. TensorFlow chooses its
 * kernels, and the order of their sums, by instructions, caches and threads.
 */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { findEngine } from '#setup/engine/engine-package.mjs';
import { ask, which } from '#setup/command.mjs';
import type { EngineKind, EngineKinds } from '../protocol/engine.ts';
import type { DecoderName } from './sampler/cache/cache-budget.ts';
import { tensorflow } from './tensorflow.ts';

type Depends = Readonly<Record<string, string>>;

const digestOf = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 12);

/** `name` says at a glance what it is; the digest alone distinguishes kinds. */
export function kindOf(name: string, depends: Depends): EngineKind {
  const sorted = Object.entries(depends).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { id: `${name}-${process.arch}-${digestOf(JSON.stringify(sorted))}`, depends };
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}

/** Instructions by which TensorFlow and oneDNN choose their kernels. */
const INSTRUCTIONS = /^(fma|avx|avx2|f16c|avx512\w*|avx_vnni\w*|avx10\w*|amx_\w+|asimd\w*|sve\w*|bf16|i8mm)$/;

/** Sizes of the caches of the first processor: products are cut into blocks by them. */
function cachesOf(folder = '/sys/devices/system/cpu/cpu0/cache'): string {
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => /^index\d+$/.test(name));
  } catch {
    return '';
  }
  const of = (name: string, field: string) => read(join(folder, name, field));
  const data = names.toSorted().filter((name) => of(name, 'type') !== 'Instruction');
  return data.map((name) => `L${of(name, 'level')} ${of(name, 'size')}`).join(', ');
}

/** The processor, by `/proc/cpuinfo` where there is one. */
export function processorOf(info = read('/proc/cpuinfo'), caches = cachesOf()): Depends {
  const [first = ''] = info.split('\n\n');
  const fields = new Map(
    first.split('\n').map((line) => {
      const [name = '', ...value] = line.split(':');
      return [name.trim(), value.join(':').trim()] as const;
    }),
  );
  const named = ['vendor_id', 'cpu family', 'model', 'CPU implementer', 'CPU part'].flatMap(
    (name) => fields.get(name) ?? [],
  );
  const flags = (fields.get('flags') ?? fields.get('Features') ?? '').split(' ');
  return {
    processor: named.join(' ') || (cpus()[0]?.model ?? 'unknown'),
    isa: flags
      .filter((flag) => INSTRUCTIONS.test(flag))
      .toSorted()
      .join(' '),
    caches,
  };
}

/** Logarithms of draws are the C library's; angles and filters are computed by Node. */
function runtime(): Depends {
  const report = process.report as typeof process.report & { excludeNetwork: boolean };
  report.excludeNetwork = true;
  const { header } = report.getReport() as { readonly header?: { readonly glibcVersionRuntime?: string } };
  return { node: process.version, libc: header?.glibcVersionRuntime ?? 'unknown' };
}

function gpuOf(): Depends {
  const smi = which('nvidia-smi', process.env);
  const reported = smi && ask(smi, ['--query-gpu=name,driver_version', '--format=csv,noheader']);
  return { device: reported?.split('\n')[0]?.trim() ?? 'unknown' };
}

function tensorflowOf(): Depends {
  const threads = process.env['TF_NUM_INTRAOP_THREADS'] || String(availableParallelism());
  const common = { ...runtime(), tensorflow: tensorflow.version };
  return tensorflow.gpu ? { ...common, ...gpuOf() } : { ...common, ...processorOf(), threads };
}

function decoderOf(): Depends {
  const path = join(findEngine() ?? '', 'lib', 'napi-v8', 'longhaul_decoder.node');
  return { ...runtime(), build: digestOf(readFileSync(path)) };
}

/** `decoder`: what this process samples with. */
export function engineKinds(decoder: DecoderName): EngineKinds {
  const training = tensorflowOf();
  return {
    sampling: decoder === 'native' ? kindOf('native', decoderOf()) : kindOf('graph', training),
    training: kindOf('tensorflow', training),
  };
}
