/** A handle on a run of the stack that this working directory (or Temporal's environment) points to. */

import { WorkflowNotFoundError } from '@temporalio/client';
import { UserInputError } from '../errors.ts';
import { DurableHandle } from '../durable-handle.ts';
import { evalOf } from '../eval/local-eval.ts';
import { Longhaul } from '../longhaul.ts';
import type { RunHandle } from '../run-handle.ts';
import type { VerbContext } from '../verb.ts';
import { knownRuns } from './local-store.ts';

/** Errors: those of `connectClient`. */
export async function withLonghaul<T>(context: VerbContext, body: (longhaul: Longhaul) => Promise<T>): Promise<T> {
  const longhaul = await Longhaul.connect({}, context);
  try {
    return await body(longhaul);
  } finally {
    await longhaul.close();
  }
}

/** Errors: `UserInputError` where no such run is going on; `Unreachable` when Temporal does not answer. */
export function withRun<T>(context: VerbContext, run: string, body: (handle: RunHandle) => Promise<T>): Promise<T> {
  return reached(context, run, (longhaul) => body(longhaul.run(run)));
}

async function reached<T>(context: VerbContext, name: string, body: (longhaul: Longhaul) => Promise<T>): Promise<T> {
  try {
    return await withLonghaul(context, body);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new UserInputError('RUN', name, await remedyFor(name, context));
  }
}

/** Of a rollout on its own, which is named by its workflow id. */
const ROLLOUT = 'rollout/';

function steered(longhaul: Longhaul, name: string): DurableHandle<unknown, unknown> {
  if (name.startsWith(ROLLOUT)) return new DurableHandle(longhaul.client, name);
  const id = evalOf(name);
  return id === undefined ? longhaul.run(name) : longhaul.evaluation(id);
}

/** As `withRun`, for a run, as `eval/ID` for an eval, or as `rollout/…` for a rollout on its own. */
export function withSteered<T>(context: VerbContext, name: string, body: (handle: DurableHandle<unknown, unknown>) => Promise<T>): Promise<T> {
  return reached(context, name, (longhaul) => body(steered(longhaul, name)));
}

/** Temporal says the same of a run that has ended as of one that never was. */
async function remedyFor(run: string, context: VerbContext): Promise<string> {
  if (evalOf(run) !== undefined) return 'no eval of that name is going on';
  if (run.startsWith(ROLLOUT)) return 'no rollout of that id is going on';
  const known = await knownRuns(context);
  if (known.includes(run)) return `it has ended; look at it with: npx longhaul show ${run}, or resume one that failed or was cancelled: npx longhaul train CONFIG --again`;
  return known.length > 0 ? `give one of ${known.join(', ')}` : 'there is no run yet';
}
