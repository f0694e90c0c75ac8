/** The NVIDIA devices that workers of this machine may use, as `CUDA_VISIBLE_DEVICES` names them; none where there is no driver. */

import { ask, which } from '#setup/command.mjs';

const lines = (text: string, by: string): string[] =>
  text
    .split(by)
    .map((one) => one.trim())
    .filter((one) => one !== '');

/** What the environment allows already counts; else what `nvidia-smi` lists. */
export function gpuDevices(env: NodeJS.ProcessEnv): readonly string[] {
  const smi = which('nvidia-smi', env);
  const listed = smi === undefined ? undefined : ask(smi, ['--query-gpu=index', '--format=csv,noheader']);
  if (listed === undefined) return [];
  const allowed = env['CUDA_VISIBLE_DEVICES'];
  // CUDA itself stops at the first name that it does not know, -1 among them.
  return allowed === undefined ? lines(listed, '\n') : lines(allowed, ',').filter((name) => !name.startsWith('-'));
}
