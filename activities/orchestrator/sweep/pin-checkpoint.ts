/**
 * A checkpoint kept for oneself: its files, which never change, under second names. It is there whole or not at all,
 * and costs no room while the original is there.
 */

import { randomUUID } from 'node:crypto';
import { access, copyFile, link, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { filesOf, NOT_OF_THE_POLICY } from '../../../trainer/checkpoints/policy-files.ts';

const NEEDED = ['config.json', 'longhaul.json', 'tokenizer.json'];

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** On one file system a second name; across two, or where links are refused, a copy. */
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

/** Makes `to` of `from`, unless it is there. Errors: what `gone` makes, where `from` is not there, or not any more. */
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
    // Retention removes files one by one: what was linked is whole only if all of them are still there.
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
