/** The file of an update's plan. It records its format, so that a worker of another version does not misread it. */

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { createSealed, isMissing, readSealed, type Sealed, writeSealed } from './sealed-file.ts';
import type { UpdatePlan } from './update-plan.ts';

/** Increased with every change that an older reader would misread. */
export const PLAN_FORMAT = 1;

/** Another version of this program wrote the plan. */
export class UnknownPlanFormat extends Error {
  override readonly name = 'UnknownPlanFormat';
  readonly file: string;
  readonly format: unknown;

  constructor(file: string, format: unknown) {
    super(
      `${file} has plan format ${String(format)}, and this worker reads format ${PLAN_FORMAT}: ` +
        'another version of longhaul wrote it. ' +
        `Use one version for all GPU workers of a run; or remove ${path.dirname(file)}, and the update starts again`,
    );
    this.file = file;
    this.format = format;
  }
}

type Stored = UpdatePlan & { readonly format: unknown };

const planFile = (dir: string): string => path.join(dir, 'plan');

/** `undefined` if there is none, or it is torn. Errors: `UnknownPlanFormat`. */
export async function readPlan(dir: string): Promise<Sealed<UpdatePlan> | undefined> {
  const found = await readSealed<Stored>(planFile(dir));
  if (found === undefined) return undefined;
  const { format } = found.value;
  if (format !== PLAN_FORMAT) throw new UnknownPlanFormat(planFile(dir), format);
  return found;
}

/**
 * Writes `plan` unless the folder has a plan already; returns the plan in the folder. If several workers write at once,
 * one plan wins. A torn plan is replaced. Errors: `UnknownPlanFormat`.
 */
export async function layDown(dir: string, plan: UpdatePlan): Promise<Sealed<UpdatePlan>> {
  const stored: Stored = { ...plan, format: PLAN_FORMAT };
  const created = await createSealed(planFile(dir), stored);
  if (created !== undefined) return { value: plan, sha256: created };
  return (await readPlan(dir)) ?? { value: plan, sha256: await writeSealed(planFile(dir), stored) };
}

/** A text that changes if the plan is written again; `undefined` if there is none. */
export async function planStamp(dir: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs } = await stat(planFile(dir), { bigint: true });
    return `${ino} ${size} ${mtimeNs}`;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
