/** Checks the engine by using it: a child process loads the binding and multiplies a matrix. */

import { ask, which } from '#setup/command.mjs';
import { loadEngine } from '#setup/engine/engine-binding.mjs';
import { findNode } from '#setup/pinned-node.mjs';
import { gpuWorkers } from '../../stack/stack-plan.ts';
import { type Finding, finding } from './finding.ts';

export function examineEngine(root: string, env: NodeJS.ProcessEnv): Finding {
  const node = findNode(root);
  const version = node === undefined ? undefined : loadEngine(root, node, env);
  return finding('engine', true, version && `TensorFlow ${version}`, 'npx longhaul setup');
}

export function examineGpu(env: NodeJS.ProcessEnv): Finding {
  const smi = which('nvidia-smi', env);
  const listed = smi === undefined ? undefined : ask(smi, ['--query-gpu=name,memory.total', '--format=csv,noheader']);
  return finding(
    'NVIDIA GPU',
    false,
    listed?.replaceAll('\n', '; ') || undefined,
    'not required: without one the engine runs on the processor',
  );
}

/** The GPU workers that `up` starts here. If this machine cannot provide the pool, the stack does not start. */
export function examinePool(env: NodeJS.ProcessEnv): Finding {
  try {
    const workers = gpuWorkers(env).map(
      ({ name, does, device, threads }) =>
        `${name} ${does} (${device === undefined ? `${threads} threads` : `device ${device}`})`,
    );
    return finding('GPU workers', true, workers.join(', '), '');
  } catch (error) {
    return finding('GPU workers', true, undefined, error instanceof Error ? error.message : String(error));
  }
}
