/**
 * Imports a bundle of users' modules, once per process and digest. What it defines is known under its digest, so that
 * several bundles with the same names live in one process.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { writeWhole } from '#setup/files.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import type { RunRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import type { ObjectRef } from '../protocol/stages.ts';
import type { Bundle } from './bundle.ts';
import { whileLoading } from './loading.ts';
import { messageWithPlace } from './own-frame.ts';
import { knowBundle } from './source-places.ts';

/** Users' modules that do not load: they throw, or wait without an end. */
export class ModulesFailed extends Error {
  override readonly name = 'ModulesFailed';
}

/** A bundle that was never opened by a run, an eval or a command of this store: it is not run. */
export class ModulesUnknown extends Error {
  override readonly name = 'ModulesUnknown';

  constructor(digest: ObjectRef) {
    super(`${digest} is not a bundle of modules that a run or an eval of this store was started with`);
  }
}

/** What a store records of a bundle that may run. The opening of a run or an eval writes it, and `longhaul rollout`. */
export interface ModulesRecord {
  readonly digest: ObjectRef;
  readonly paths: readonly string[];
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** The part of a store that has bundles. */
export interface BundleStore {
  get<T>(key: string): Promise<T | undefined>;
  getObject(ref: ObjectRef): Promise<Uint8Array>;
}

const LOADED_WITHIN_MS = 60_000;
const cacheFolder = (): string => join(cacheDirectory(), 'modules');
const nameOf = (digest: ObjectRef): string => `${digest.slice('sha256:'.length)}.mjs`;

/** Kept on the process's global object: a process imports a bundle once, whichever copy of this package asks. */
const shared = globalThis as unknown as Record<symbol, unknown>;
const loaded = (shared[Symbol.for('longhaul loaded bundles')] ??= new Map<ObjectRef, Promise<void>>()) as Map<
  ObjectRef,
  Promise<void>
>;

const isOf = (digest: ObjectRef, bytes: Uint8Array): boolean =>
  digest === `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

function bytesAt(file: string): Uint8Array | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

/**
 * The bundle's file in `folder`, with exactly its bytes. Errors: `ModulesFailed` for bytes that are not those of the
 * digest; those of the disk.
 */
function fileOf(digest: ObjectRef, code: Uint8Array, folder: string): string {
  if (!isOf(digest, code)) throw new ModulesFailed(`the bundle ${digest} is damaged`);
  const file = join(folder, nameOf(digest));
  const there = bytesAt(file);
  if (there !== undefined && isOf(digest, there)) return file;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeWhole(file, code);
  return file;
}

async function importFile(digest: ObjectRef, file: string, name: string, withinMs: number): Promise<void> {
  const timer = new AbortController();
  const late = sleep(withinMs, undefined, { signal: timer.signal }).then(() => {
    throw new ModulesFailed(`${name}: did not load within ${withinMs / 1000} s; a top-level await may wait forever`);
  });
  late.catch(() => undefined);
  const whole = whileLoading({ module: name, bundle: digest }, () => import(pathToFileURL(file).href)).catch(
    (error: unknown) => {
      const kind = error instanceof Error ? `${error.name}: ` : '';
      throw new ModulesFailed(`${kind}${messageWithPlace(error)}`, { cause: error });
    },
  );
  await Promise.race([whole, late]).finally(() => timer.abort());
}

/** Errors: `ModulesFailed`; those of the disk. */
export function importBundle(
  { digest, code, paths }: Bundle,
  { folder = cacheFolder(), withinMs = LOADED_WITHIN_MS } = {},
): Promise<void> {
  const known = loaded.get(digest);
  if (known !== undefined) return known;
  const importing = (async () => {
    const file = fileOf(digest, code, folder);
    knowBundle(file, code);
    await importFile(digest, file, paths.join(', '), withinMs);
  })();
  loaded.set(digest, importing);
  importing.catch(() => loaded.delete(digest));
  return importing;
}

/** The bundle of a store, if it may run. Errors: `ModulesUnknown`; those of the store, also for a damaged object. */
async function bundleIn(store: BundleStore, digest: ObjectRef): Promise<Bundle> {
  const record = await store.get<ModulesRecord>(keys.modules(digest));
  if (record === undefined) throw new ModulesUnknown(digest);
  return { digest, code: await store.getObject(digest), paths: record.paths };
}

/**
 * Puts the bundle of the run's modules, if it has any, into the cache, where the threads that train find it. Errors:
 * `ModulesUnknown`; those of the store, also for a damaged object; those of the disk.
 */
export async function cacheModulesOf(run: string, store: BundleStore, folder = cacheFolder()): Promise<void> {
  const { modules } = (await store.get<RunRecord>(keys.run(run))) ?? {};
  if (modules !== undefined) fileOf(modules, (await bundleIn(store, modules)).code, folder);
}

/** Imports a bundle that the process's main thread has put into the cache. Errors: `ModulesFailed`. */
export async function importCached(digest: ObjectRef, folder = cacheFolder()): Promise<void> {
  const code = bytesAt(join(folder, nameOf(digest)));
  if (code === undefined) throw new ModulesFailed(`the bundle ${digest} is missing in ${folder}`);
  await importBundle({ digest, code, paths: [digest] }, { folder });
}

/**
 * Imports a bundle of a store. Errors: `ModulesUnknown`, `ModulesFailed`; those of the store, also for a damaged
 * object; those of the disk.
 */
export async function importStored(digest: ObjectRef, store: BundleStore, folder?: string): Promise<void> {
  // Asked before each use: another store of this process may not have opened it.
  const bundle = await bundleIn(store, digest);
  await importBundle(bundle, folder === undefined ? {} : { folder });
}
