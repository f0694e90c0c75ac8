/**
 * The record of its container in a sandbox's folder, and how a container is inspected and removed. A later container
 * may have the same name, but never the same claim, which is a label of the container.
 */

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { ImageChanges } from '../image-changes.ts';
import { SandboxLost } from '../sandbox.ts';
import { CLAIM_LABEL, SANDBOX_LABEL, SCOPE_LABEL } from './container.ts';
import { classifyDocker, type Engine, statusOf, within } from './engine.ts';

const GONE_WITHIN_MS = 30_000;
const FILE = 'container';

export interface ContainerRecord {
  readonly name: string;
  readonly claim: string;
}

export function readRecord(folder: string): ContainerRecord | undefined {
  try {
    const [name, claim] = readFileSync(join(folder, FILE), 'utf8').split(' ');
    return name === undefined || claim === undefined ? undefined : { name, claim };
  } catch {
    return undefined;
  }
}

export function writeRecord(folder: string, { name, claim }: ContainerRecord): void {
  writeFileSync(join(folder, `${FILE}.partial`), `${name} ${claim}`);
  renameSync(join(folder, `${FILE}.partial`), join(folder, FILE));
}

const LAUNCHED = 'launched';

/**
 * Marks the container as launched: if it does not run later, it has ended. Before, its live maker is about to start it.
 */
export const noteLaunched = (folder: string): void => writeFileSync(join(folder, LAUNCHED), '');

export const wasLaunched = (folder: string): boolean => existsSync(join(folder, LAUNCHED));

export interface FoundContainer {
  readonly id: string;
  readonly scope: string;
  readonly sandbox: string;
  readonly claim: string;
}

/** Returns `undefined` if the daemon has no container of this name. */
export async function inspectContainer(engine: Engine, name: string): Promise<FoundContainer | undefined> {
  try {
    const { Id, Config } = await within('inspect', engine.docker.getContainer(name).inspect());
    const label = (key: string): string => Config.Labels[key] ?? '';
    return { id: Id, scope: label(SCOPE_LABEL), sandbox: label(SANDBOX_LABEL), claim: label(CLAIM_LABEL) };
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw classifyDocker(`container ${name} cannot be inspected`, error);
  }
}

/** As the daemon's API numbers them. */
const [CHANGED, ADDED, REMOVED] = [0, 1, 2];

const isChange = (entry: unknown): entry is { readonly Path: string; readonly Kind: number } =>
  typeof entry === 'object' &&
  entry !== null &&
  'Path' in entry &&
  typeof entry.Path === 'string' &&
  'Kind' in entry &&
  typeof entry.Kind === 'number';

/** What the container of a sandbox's folder has changed of its image. Errors: `SandboxUnavailable`. */
export async function imageChangesOf(engine: Engine, folder: string): Promise<ImageChanges> {
  const record = readRecord(folder);
  if (record === undefined) throw new SandboxLost(`no sandbox in ${folder}`);
  try {
    const listed = (await within('changes', engine.docker.getContainer(record.name).changes())) as unknown;
    const entries: unknown[] = Array.isArray(listed) ? listed : [];
    const changes = entries.filter(isChange);
    const of = (kind: number | undefined) => changes.filter(({ Kind }) => Kind === kind).map(({ Path }) => Path);
    return { added: of(ADDED), changed: of(CHANGED), removed: of(REMOVED) };
  } catch (error) {
    throw classifyDocker(`container ${record.name}: its changes cannot be listed`, error);
  }
}

/**
 * Idempotent: the container may be gone already, or its removal in progress. Returns when the daemon has removed it.
 */
export async function removeContainer(engine: Engine, id: string): Promise<void> {
  const deadline = Date.now() + GONE_WITHIN_MS;
  for (;;) {
    try {
      await within('remove', engine.docker.getContainer(id).remove({ force: true, v: true }));
      return;
    } catch (error) {
      if (statusOf(error) === 404) return;
      if (statusOf(error) !== 409 || Date.now() > deadline)
        throw classifyDocker(`container ${id} cannot be removed`, error);
    }
    await sleep(20);
  }
}
