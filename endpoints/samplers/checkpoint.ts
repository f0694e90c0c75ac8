/** A checkpoint's folder as servers are given it: whole weights or an adapter, and a label that names its contents. */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { SamplerPolicy } from '../../protocol/sampler-uri.ts';

export interface Checkpoint {
  /** As the servers see it. */
  readonly folder: string;
  /** As this machine sees it. */
  readonly source: string;
  /** An adapter is loaded under a name of its own, beside others. Whole weights take the place of the served ones. */
  readonly isAdapter: boolean;
  readonly version: number;
  /** SHA-256 of the files that decide what is sampled. */
  readonly digest: string;
  /** `VERSION-DIGEST`: what a server calls these weights. */
  readonly label: string;
}

/** The checkpoint is not there, or is not complete. */
export class CheckpointMissing extends Error {
  override readonly name = 'CheckpointMissing';
}

/** Files that decide what is sampled. Others may change, for example a trainer's own state. */
const DECIDES = /^(config\.json|adapter_config\.json|.*\.safetensors(\.index\.json)?|pytorch_model.*\.bin)$/;
const LABEL = /(?:^|[ -])(\d{1,9})-([0-9a-f]{16})(?: |$)/;
const ADAPTER_NAME = 'longhaul';
const COMPLETE = 'give the folder of a complete checkpoint, in safetensors';

/** Digests by folder and its files' sizes and times: weights of many GB are read once in a process. */
const digests = new Map<string, Promise<string>>();
const MOST_DIGESTS = 64;

const indexOfWeights = z.object({ weight_map: z.record(z.string(), z.string()) });

/**
 * Each file that an index of weights names must be there: vLLM would keep its earlier tensors for one that is not.
 * Errors: `CheckpointMissing`, also for an index that is cut off.
 */
async function checkParts(folder: string, index: string, files: readonly string[]): Promise<void> {
  const refuse = (what: string): never => {
    throw new CheckpointMissing(`${folder} ${what}: ${COMPLETE}`);
  };
  const text = await readFile(join(folder, index), 'utf8');
  let parts: readonly string[];
  try {
    parts = Object.values(indexOfWeights.parse(JSON.parse(text)).weight_map);
  } catch {
    return refuse(`has a ${index} that is no index of weights`);
  }
  const part = parts.find((one) => !files.includes(one));
  if (part !== undefined) refuse(`lacks ${part}, which ${index} names`);
}

/** Errors: `CheckpointMissing`. */
async function digestOf(folder: string, files: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) {
    if (file.endsWith('.index.json')) await checkParts(folder, file, files);
    const own = createHash('sha256');
    for await (const chunk of createReadStream(join(folder, file))) own.update(chunk as Buffer);
    hash.update(`${file}\n${own.digest('hex')}\n`);
  }
  return hash.digest('hex');
}

/** Errors: `CheckpointMissing`. */
export async function readCheckpoint({
  folder,
  at,
  version,
}: Pick<SamplerPolicy, 'folder' | 'version'> & { readonly at?: string | undefined }): Promise<Checkpoint> {
  const missing = (what: string) => new CheckpointMissing(`${folder} ${what}: ${COMPLETE}`);
  const listed = await readdir(folder).catch(() => {
    throw missing('cannot be read');
  });
  const files = listed.filter((file) => DECIDES.test(file)).toSorted();
  const isAdapter = files.includes('adapter_config.json');
  if (!isAdapter && !files.includes('config.json')) throw missing('has neither config.json nor adapter_config.json');
  if (!files.some((file) => /\.(safetensors|bin)$/.test(file))) throw missing('has no weights');
  const stats = await Promise.all(files.map((file) => stat(join(folder, file))));
  const name = JSON.stringify([folder, files, stats.map(({ size, mtimeMs, ino }) => [size, mtimeMs, ino])]);
  const known = digests.get(name) ?? digestOf(folder, files);
  if (digests.size >= MOST_DIGESTS) digests.clear();
  digests.set(name, known);
  known.catch(() => digests.delete(name));
  const digest = await known;
  return {
    folder: at ?? folder,
    source: folder,
    isAdapter,
    version,
    digest,
    label: `${version}-${digest.slice(0, 16)}`,
  };
}

/**
 * Of a push: a server reads the files later than their digest was taken, and its label must not name others. Errors:
 * `CheckpointMissing` if they are others now.
 */
export async function checkUnchanged({ source, digest, version, label }: Checkpoint): Promise<void> {
  const now = await readCheckpoint({ folder: source, at: undefined, version });
  if (now.digest === digest) return;
  throw new CheckpointMissing(
    `the files of ${source} changed while ${label} was pushed: give a changed checkpoint a folder and a ` +
      'version of its own',
  );
}

/** The name under which servers have the adapter. Another version, or other contents, have another name. */
export const adapterName = ({ label }: Pick<Checkpoint, 'label'>): string => `${ADAPTER_NAME}-${label}`;

/** The version in a label or an adapter's name; `undefined` for one that Longhaul did not give. */
export function versionIn(label: string): { readonly version: number; readonly digest: string } | undefined {
  const [, version, digest] = LABEL.exec(label) ?? [];
  return version === undefined || digest === undefined ? undefined : { version: Number(version), digest };
}

/** Adapters to unload: of versions long before this one. Rollouts that still ask for one load it again. */
export function outdated(names: readonly string[], { version }: Checkpoint): string[] {
  const kept = 2;
  return names.filter((name) => {
    const found = name.startsWith(`${ADAPTER_NAME}-`) ? versionIn(name) : undefined;
    return found !== undefined && found.version < version - kept;
  });
}
