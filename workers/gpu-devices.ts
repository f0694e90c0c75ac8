/** The NVIDIA devices that workers may use, as `CUDA_VISIBLE_DEVICES` names them; none without a driver. */

import { ask, which } from '#setup/command.mjs';

const lines = (text: string, by: string): string[] =>
  text
    .split(by)
    .map((one) => one.trim())
    .filter((one) => one !== '');

/** The devices that the environment allows; else those that `nvidia-smi` lists. */
export function gpuDevices(env: NodeJS.ProcessEnv): readonly string[] {
  const smi = which('nvidia-smi', env);
  const listed = smi === undefined ? undefined : ask(smi, ['--query-gpu=index', '--format=csv,noheader']);
  if (listed === undefined) return [];
  const allowed = env['CUDA_VISIBLE_DEVICES'];
  // CUDA itself stops at the first name that it does not know, such as -1.
  return allowed === undefined ? lines(listed, '\n') : lines(allowed, ',').filter((name) => !name.startsWith('-'));
}
