/**
 * A checkpoint kept for oneself: its files, which never change, under second names. It is there whole or not at all,
 * and costs no room while the original is there.
 */

import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, copyFile, link, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Large, and of no use for sampling. */
const NOT_OF_THE_POLICY = new Set(['optimizer.safetensors']);

const NEEDED = ['config.json', 'longhaul.json', 'tokenizer.json'];

const PART_OF_POLICY = /^(config\.json|adapter_config\.json|generation_config\.json|tokenizer.*|chat_template.*|.*\.safetensors|.*\.safetensors\.index\.json)$/;

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

async function filesOf(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  return entries.filter((entry) => !entry.isDirectory() && !NOT_OF_THE_POLICY.has(entry.name)).map(({ name }) => name).sort();
}

/** Makes `to` of `from`, unless it is there. Errors: what `gone` makes, where `from` is not there, or not any more. */
export async function pinCheckpoint(from: string, to: string, gone: () => Error): Promise<string> {
  if (await access(to).then(() => true, () => false)) return to;
  const aside = `${to}.partial-${randomUUID()}`;
  await mkdir(aside, { recursive: true });
  try {
    const names = await filesOf(from);
    for (const name of names) await linkOrCopy(join(from, name), join(aside, name));
    // Retention removes files one by one: what was linked is whole only if all of them are still there.
    const hasWeights = names.some((name) => name.endsWith('.safetensors'));
    if (!hasWeights || !NEEDED.every((name) => names.includes(name)) || (await filesOf(from)).length < names.length) throw gone();
    await mkdir(dirname(to), { recursive: true });
    await rename(aside, to);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    if (codeOf(error) === 'ENOENT') throw gone();
    if (codeOf(error) !== 'ENOTEMPTY' && codeOf(error) !== 'EEXIST') throw error;
  }
  return to;
}

/** SHA-256 over names and contents of the files that make a policy, as hexadecimal digits. */
export async function fingerprintOf(dir: string): Promise<string> {
  const whole = createHash('sha256');
  for (const name of (await filesOf(dir)).filter((one) => PART_OF_POLICY.test(one))) {
    const one = createHash('sha256');
    for await (const bytes of createReadStream(join(dir, name))) one.update(bytes as Uint8Array);
    whole.update(`${name}\0${one.digest('hex')}\n`);
  }
  return whole.digest('hex');
}
