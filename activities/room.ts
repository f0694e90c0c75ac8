/** Whether a disk has room for a checkpoint: asked before the work, since training again costs more than asking. */

import { mkdir, readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StoreFull } from '../store/disk-errors.ts';
import { criticFolder } from '../trainer/checkpoint.ts';

/** Weights and two moments of each, in float32; a policy in half precision doubles what is counted here. */
export const WEIGHTS_AND_MOMENTS = 3;

async function weightBytes(dir: string): Promise<number> {
  const names = (await readdir(dir)).filter((name) => name.endsWith('.safetensors') && name !== 'optimizer.safetensors');
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(dir, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/**
 * `criticBase`: what a critic is beside the policy, or begins as. Errors: `StoreFull` where so many times the weights of
 * `fromDir`, by default a checkpoint made from it, would not fit beside `toDir`.
 */
export async function roomForCheckpoint(fromDir: string, toDir: string, copies = WEIGHTS_AND_MOMENTS, criticBase?: string): Promise<void> {
  const parent = dirname(toDir);
  await mkdir(parent, { recursive: true });
  const policy = await weightBytes(fromDir).catch(() => 0);
  const critic = criticBase === undefined ? 0 : await weightBytes(join(fromDir, criticFolder)).catch(() => weightBytes(criticBase)).catch(() => 0);
  const needed = copies * policy + WEIGHTS_AND_MOMENTS * critic;
  const { bavail, bsize } = await statfs(parent);
  if (bavail * bsize < needed) throw new StoreFull(parent);
}
