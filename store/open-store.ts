/**
 * Opens stores by URL, `SCHEME:PLACE`. All code that uses a store opens it here. An implementation is loaded when a URL
 * has its scheme.
 */

import { resolve } from 'node:path';
import { UserInputError } from '../protocol/user-input-error.ts';
import type { Patience } from './disk-patience.ts';
import type { Removed, RemovedNaming, Prefixes } from './sqlite-prune.ts';
import type { Store } from './store.ts';
import type { StoreReport, VerifyOptions, WholeRecords } from './verify-store.ts';

/** Names the store of a folder's stack. Default: SQLite, in the folder. */
export const STORE_VARIABLE = 'LONGHAUL_STORE';

/** Deletes records of ended runs. Errors of every method: disk errors by their class. */
export interface Pruner {
  /** Counts the rows whose keys have one of the prefixes. */
  count(prefixes: Prefixes): Removed;
  /** Deletes the rows whose keys have one of the prefixes, in one transaction. Returns how many there were. */
  delete(prefixes: Prefixes): Removed;
  deleteResult(key: string): void;
  /**
   * Deletes results whose keys have one of the prefixes `begins`. Also deletes the objects that they name, except those
   * that a remaining result under `within` names.
   */
  deleteNaming(begins: readonly string[], within: readonly string[]): RemovedNaming;
  /** Returns free space to the disk. All writers wait meanwhile. */
  shrink(): void;
  close(): void;
}

/** What an implementation can do with the store at a place. */
export interface StoreKind {
  /** Opens the store, or creates it. */
  open(place: string, patience?: Patience): Promise<Store>;
  exists(place: string): Promise<boolean>;
  verify(place: string, options: VerifyOptions): Promise<StoreReport | undefined>;
  wholeRecords<T>(place: string, prefix: string): Promise<WholeRecords<T>>;
  openPruner(place: string): Promise<Pruner>;
  bytes(place: string): Promise<number>;
}

interface Scheme {
  /** True if the place is a folder of this machine. */
  readonly isFolder: boolean;
  readonly load: () => Promise<StoreKind>;
}

const SCHEMES: ReadonlyMap<string, Scheme> = new Map([
  ['sqlite', { isFolder: true, load: async () => (await import('./sqlite-kind.ts')).sqliteKind }],
]);

const known = (): string => [...SCHEMES.keys()].map((scheme) => `${scheme}:PLACE`).join(', ');

/** Errors: `UserInputError` for a URL with an unknown scheme, or without a place. */
function parse(url: string): Scheme & { readonly name: string; readonly place: string } {
  const [, name = '', place = ''] = /^([a-z][a-z0-9+.-]*):(.+)$/su.exec(url) ?? [];
  const scheme = SCHEMES.get(name);
  if (scheme === undefined) throw new UserInputError(STORE_VARIABLE, url, `give a URL of a known store: ${known()}`);
  return { ...scheme, name, place };
}

/** The URL in one form: a folder's path is absolute, and relative ones start at `cwd`. Errors: `UserInputError`. */
export function storeUrlFrom(url: string, cwd: string): string {
  const { isFolder, name, place } = parse(url);
  return isFolder ? `${name}:${resolve(cwd, place)}` : url;
}

/** The URL of the store in a folder of this machine, in the default implementation. */
export const sqliteUrl = (dir: string): string => `sqlite:${dir}`;

/** The folder of this machine that the store writes to. `undefined` if it is elsewhere. Errors: `UserInputError`. */
export function storeFolder(url: string): string | undefined {
  const { isFolder, place } = parse(url);
  return isFolder ? place : undefined;
}

/** The store's place as messages show it: its folder, or its URL. Errors: `UserInputError`. */
export const storeName = (url: string): string => storeFolder(url) ?? url;

/**
 * Opens the store, or creates it. With `patience`, its calls wait while it is full, read-only or locked, without
 * blocking the event loop.
 * Errors: `UserInputError` for an unknown scheme, `StoreFormatUnknown`. Here and in every call: `StoreFull`,
 * `StoreReadOnly`, `StoreBusy`, `StoreCorrupt`, and others of the implementation.
 */
export async function openStore(url: string, patience?: Patience): Promise<Store> {
  const { load, place } = parse(url);
  return (await load()).open(place, patience);
}

/** Errors: `UserInputError` for an unknown scheme. */
export async function storeExists(url: string): Promise<boolean> {
  const { load, place } = parse(url);
  return (await load()).exists(place);
}

/**
 * Reads every row and reports the damaged ones. It changes nothing, and the stack may run meanwhile. Returns
 * `undefined` if there is no store. Errors: `StoreFormatUnknown`; disk errors by their class; the reason of
 * `options.signal`.
 */
export async function verifyStore(url: string, options: VerifyOptions = {}): Promise<StoreReport | undefined> {
  const { load, place } = parse(url);
  return (await load()).verify(place, options);
}

/** Reads the records with `prefix` row by row, so that a damaged one hides no other. Errors: those of `verifyStore`. */
export async function wholeRecords<T>(url: string, prefix: string): Promise<WholeRecords<T>> {
  const { load, place } = parse(url);
  return (await load()).wholeRecords<T>(place, prefix);
}

/** The store must exist. Errors: disk errors by their class. */
export async function openPruner(url: string): Promise<Pruner> {
  const { load, place } = parse(url);
  return (await load()).openPruner(place);
}

/** The size of the store. */
export async function storeBytes(url: string): Promise<number> {
  const { load, place } = parse(url);
  return (await load()).bytes(place);
}
