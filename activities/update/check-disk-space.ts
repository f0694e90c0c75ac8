/** Checks whether a disk has room for a checkpoint, before the work: to train again would cost more than the check. */

import { mkdir, readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StoreFull } from '../../store/disk-errors.ts';
import { criticFolder } from '../../trainer/checkpoints/checkpoint.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import { adapterJson, adapterModules } from '../../trainer/lora/adapter-config.ts';
import { readAdapterJson, weightsDirectory } from '../../trainer/lora/adapter-files.ts';
import { adapterLayout } from '../../trainer/lora/adapter-layout.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { layoutOf } from '../../trainer/model/parameters.ts';

/** Weights and two moments of each, in float32; a policy in half precision doubles what is counted here. */
export const WEIGHTS_AND_MOMENTS = 3;

async function weightBytes(dir: string): Promise<number> {
  const names = (await readdir(dir)).filter(
    (name) => name.endsWith('.safetensors') && name !== 'optimizer.safetensors',
  );
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(dir, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** For a new adapter, only the adapter counts: the policy's other weights are not written. */
async function trainedBytes({ fromDir, lora }: Pick<UpdateRequest, 'fromDir' | 'lora'>): Promise<number> {
  if (lora === undefined || (await readAdapterJson(fromDir)) !== undefined) return weightBytes(fromDir);
  return 4 * adapterLayout(adapterModules(adapterJson(lora, fromDir), layoutOf(await readModelConfig(fromDir)))).size;
}

/**
 * Of the critic beside the policy, or of the model that it starts from; of an adapter's base, if all weights are
 * trained.
 */
async function criticBytes({ fromDir, critic }: Pick<UpdateRequest, 'fromDir' | 'critic'>): Promise<number> {
  if (critic === undefined) return 0;
  const own = join(fromDir, criticFolder);
  const isThere = await readdir(own).then(
    () => true,
    () => false,
  );
  if (critic.lora !== undefined)
    return trainedBytes({ fromDir: isThere ? own : critic.base, lora: { ...critic.lora, seed: critic.seed } });
  return weightBytes(isThere ? own : await weightsDirectory(critic.base));
}

/**
 * Errors: `StoreFull` if `copies` times the trained bytes of `fromDir` and of its critic do not fit beside `toDir`. The
 * default is the size of a checkpoint.
 */
export async function roomForCheckpoint(
  request: Pick<UpdateRequest, 'fromDir' | 'toDir' | 'lora' | 'critic'>,
  copies = WEIGHTS_AND_MOMENTS,
): Promise<void> {
  const parent = dirname(request.toDir);
  await mkdir(parent, { recursive: true });
  const [policy, critic] = [await trainedBytes(request).catch(() => 0), await criticBytes(request).catch(() => 0)];
  const needed = copies * (policy + critic);
  const { bavail, bsize } = await statfs(parent);
  if (bavail * bsize < needed) throw new StoreFull(parent);
}
