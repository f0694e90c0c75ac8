/** The file of an update's plan, which says its format: a worker of another version reads it right, or says that it cannot. */

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { createSealed, isMissing, readSealed, type Sealed, writeSealed } from './sealed-file.ts';
import type { UpdatePlan } from './update-plan.ts';

/** Goes up with every change that an earlier reader would get wrong. */
export const PLAN_FORMAT = 1;

/** Another version of this program laid the plan down. */
export class UnknownPlanFormat extends Error {
  override readonly name = 'UnknownPlanFormat';
  readonly file: string;
  readonly format: unknown;

  constructor(file: string, format: unknown) {
    super(
      `${file} is a plan of format ${String(format)}, and this worker reads format ${PLAN_FORMAT}: another version of longhaul laid it down. ` +
        `Let the GPU workers of a run be of one version; or remove ${path.dirname(file)}, and the update is begun again`,
    );
    this.file = file;
    this.format = format;
  }
}

type Stored = UpdatePlan & { readonly format: unknown };

const planFile = (dir: string): string => path.join(dir, 'plan');

/** `undefined` where there is none, or it is torn. Errors: `UnknownPlanFormat`. */
export async function readPlan(dir: string): Promise<Sealed<UpdatePlan> | undefined> {
  const found = await readSealed<Stored>(planFile(dir));
  if (found === undefined) return undefined;
  const { format } = found.value;
  if (format !== PLAN_FORMAT) throw new UnknownPlanFormat(planFile(dir), format);
  return found;
}

/** Lays `plan` down, of several at once one of them; returns the one that stands. What is torn does not. Errors: `UnknownPlanFormat`. */
export async function layDown(dir: string, plan: UpdatePlan): Promise<Sealed<UpdatePlan>> {
  const stored: Stored = { ...plan, format: PLAN_FORMAT };
  const created = await createSealed(planFile(dir), stored);
  if (created !== undefined) return { value: plan, sha256: created };
  return (await readPlan(dir)) ?? { value: plan, sha256: await writeSealed(planFile(dir), stored) };
}

/** Another text where the plan was written anew; `undefined` where it is gone. */
export async function planStamp(dir: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs } = await stat(planFile(dir), { bigint: true });
    return `${ino} ${size} ${mtimeNs}`;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
