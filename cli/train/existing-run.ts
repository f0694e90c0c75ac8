/** A run of the same name in the store: it is shown or attached to only for the configuration that it was started with. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { keys, type RunRecord } from '../../protocol/records.ts';
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

/** The first field of `stored` that `asked` has otherwise. */
export function firstDifference(stored: unknown, asked: unknown, field = ''): Difference | undefined {
  if (!isTree(stored) || !isTree(asked)) return Object.is(stored, asked) ? undefined : { field, stored, asked };
  for (const key of new Set([...Object.keys(stored), ...Object.keys(asked)])) {
    const found = firstDifference(stored[key], asked[key], field === '' ? key : `${field}.${key}`);
    if (found) return found;
  }
  return undefined;
}

/** From the run's folder, with today's defaults; nothing where the file is gone or of another time. */
async function storedConfig({ runDir }: RunRecord): Promise<RunConfig | undefined> {
  try {
    return resolveRunConfig(parse(await readFile(join(runDir, 'config.yaml'), 'utf8')), runDir);
  } catch {
    return undefined;
  }
}

/** What the store itself knows of the configuration, beside the same of the one that is asked for. */
function byRecord({ seed, policy, task }: RunRecord, asked: RunConfig): Difference | undefined {
  const of = (given: number, base: string, name: string, train: number, heldOut: number) => ({
    seed: given,
    policy: { base },
    task: { name, train },
    evaluation: { tasks: heldOut },
  });
  return firstDifference(
    of(seed, policy.base, task.name, task.train, task.heldOut),
    of(asked.seed, asked.policy.base, asked.task.name, asked.task.train, asked.evaluation.tasks),
  );
}

/**
 * The record of the run that `asked` names, where there is one.
 * Errors: `UserInputError` for the first field that differs from the run's own configuration.
 */
export async function existingRun(asked: RunConfig, store: Store): Promise<RunRecord | undefined> {
  const record = await store.get<RunRecord>(keys.run(asked.run));
  if (!record) return undefined;
  const stored = await storedConfig(record);
  const found = stored ? firstDifference(stored, asked) : byRecord(record, asked);
  if (!found) return record;
  const remedy = `run ${asked.run} exists with ${JSON.stringify(found.stored ?? null)}; start another with --run-id NEW`;
  throw new UserInputError(found.field, found.asked ?? null, remedy);
}
