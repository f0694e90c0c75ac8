/**
 * An eval's own copy of a checkpoint: hard links to its files, which never change. It is complete or absent, and takes
 * no room while the original exists.
 */

import { randomUUID } from 'node:crypto';
import { access, copyFile, link, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { filesOf, NOT_OF_THE_POLICY } from '../../../trainer/checkpoints/policy-files.ts';

const NEEDED = ['config.json', 'longhaul.json', 'tokenizer.json'];

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** A hard link on one file system; a copy across two, or if links are refused. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw error;
    await copyFile(from, to);
  }
}

async function neededOf(dir: string): Promise<string[]> {
  return (await filesOf(dir)).filter((name) => !NOT_OF_THE_POLICY.has(name));
}

/** Makes `to` from `from`, unless `to` exists. Errors: that of `gone` if `from` is missing, or is removed meanwhile. */
export async function pinCheckpoint(from: string, to: string, gone: () => Error): Promise<string> {
  if (
    await access(to).then(
      () => true,
      () => false,
    )
  )
    return to;
  const aside = `${to}.partial-${randomUUID()}`;
  await mkdir(aside, { recursive: true });
  try {
    const names = await neededOf(from);
    for (const name of names) await linkOrCopy(join(from, name), join(aside, name));
    // Retention removes files one by one: the copy is complete only if all of them still exist.
    const hasWeights = names.some((name) => name.endsWith('.safetensors'));
    if (!hasWeights || !NEEDED.every((name) => names.includes(name)) || (await neededOf(from)).length < names.length)
      throw gone();
    await mkdir(dirname(to), { recursive: true });
    await rename(aside, to);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    if (codeOf(error) === 'ENOENT') throw gone();
    if (codeOf(error) !== 'ENOTEMPTY' && codeOf(error) !== 'EEXIST') throw error;
  }
  return to;
}
