/** A run of the same name in the store. It is shown or attached to only if its configuration is the same. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { RunRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { resolveRunConfig } from '../../config/run-config.ts';
import type { Store } from '../../store/store.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { UserInputError } from '../../client/errors.ts';

export interface Difference {
  /** Dotted. */
  readonly field: string;
  readonly stored: unknown;
  readonly asked: unknown;
}

function isTree(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The first field in which `stored` and `asked` differ. */
export function firstDifference(stored: unknown, asked: unknown, field = ''): Difference | undefined {
  if (!isTree(stored) || !isTree(asked)) return Object.is(stored, asked) ? undefined : { field, stored, asked };
  for (const key of new Set([...Object.keys(stored), ...Object.keys(asked)])) {
    const found = firstDifference(stored[key], asked[key], field === '' ? key : `${field}.${key}`);
    if (found) return found;
  }
  return undefined;
}

/** Reads the run's folder, with the current defaults; `undefined` if the file is missing or no longer valid. */
async function storedConfig({ runDir }: RunRecord): Promise<RunConfig | undefined> {
  try {
    return resolveRunConfig(parse(await readFile(join(runDir, 'config.yaml'), 'utf8')), runDir);
  } catch {
    return undefined;
  }
}

/** Compares the settings in the run's record with those of `asked`. */
function byRecord({ seed, policy, task }: RunRecord, asked: RunConfig): Difference | undefined {
  const of = (given: number, base: string, name: string) => ({ seed: given, policy: { base }, task: { name } });
  const name = asked.tasks.map(({ source }) => source).join(' + ');
  return firstDifference(of(seed, policy.base, task.name), of(asked.seed, asked.policy.base, name));
}

/** The field as somebody writes it who has one entry of tasks: `task.train`. */
function asWritten(field: string, { tasks }: RunConfig): string {
  return tasks.length === 1
    ? field.replace(/^tasks\.0\.(?:environment|source)$/, 'task.name').replace(/^tasks\.0\./, 'task.')
    : field;
}

/**
 * Returns the record of the run that `asked` names, if there is one.
 * Errors: `UserInputError` for the first field that differs from the run's own configuration.
 */
export async function existingRun(asked: RunConfig, store: Store): Promise<RunRecord | undefined> {
  const record = await store.get<RunRecord>(keys.run(asked.run));
  if (!record) return undefined;
  const stored = await storedConfig(record);
  const found = stored ? firstDifference(stored, asked) : byRecord(record, asked);
  if (!found) return record;
  const remedy =
    `run ${asked.run} exists with ${JSON.stringify(found.stored ?? null)}; ` + 'start another with --run-id NEW';
  throw new UserInputError(asWritten(found.field, asked), found.asked ?? null, remedy);
}
