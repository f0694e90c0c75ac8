/** A handle on a run of the stack that this working directory (or Temporal's environment) points to. */

import { WorkflowNotFoundError } from '@temporalio/client';
import { UserInputError } from '../../client/errors.ts';
import { DurableHandle } from '../../client/durable-handle.ts';
import { evalOf } from '../eval/local-eval.ts';
import { Longhaul } from '../../client/longhaul.ts';
import type { VerbContext } from '../verb.ts';
import { isSingleRollout, otherName, singleRollouts } from './known-names.ts';
import { knownNames, knownRuns } from './local-store.ts';
import { fullName } from './names.ts';

/** Errors: those of `connectClient`. */
export async function withLonghaul<T>(context: VerbContext, body: (longhaul: Longhaul) => Promise<T>): Promise<T> {
  const longhaul = await Longhaul.connect({}, context);
  try {
    return await body(longhaul);
  } finally {
    await longhaul.close();
  }
}

async function reached<T>(context: VerbContext, name: string, body: (longhaul: Longhaul) => Promise<T>): Promise<T> {
  try {
    return await withLonghaul(context, body);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new UserInputError('RUN', name, await remedyFor(name, context));
  }
}

/**
 * For a run, an eval (`eval/ID`), or a single rollout (its workflow id). Errors: `UserInputError` if none of this name
 * is running; `Unreachable` if Temporal does not answer.
 */
export function withSteered<T>(
  context: VerbContext,
  name: string,
  body: (handle: DurableHandle<unknown, unknown>) => Promise<T>,
): Promise<T> {
  return reached(context, name, (longhaul) => steered(longhaul, name, body));
}

function handleOf(longhaul: Longhaul, name: string): DurableHandle<unknown, unknown> {
  const id = evalOf(name);
  if (id !== undefined) return longhaul.evaluation(id);
  return isSingleRollout(name) ? new DurableHandle(longhaul.client, name) : longhaul.run(name);
}

const liveRollouts = async (longhaul: Longhaul): Promise<string[]> =>
  (await singleRollouts(longhaul, true)).map(({ id }) => id);

/** A program may give a rollout any id: if `name` is not a running run, it may be a rollout. */
async function steered<T>(
  longhaul: Longhaul,
  name: string,
  body: (handle: DurableHandle<unknown, unknown>) => Promise<T>,
): Promise<T> {
  try {
    return await body(handleOf(longhaul, name));
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError) || !(await liveRollouts(longhaul)).includes(name)) throw error;
    return body(new DurableHandle(longhaul.client, name));
  }
}

/**
 * As `withSteered`, and for a unique prefix of a name. A running workflow with exactly the given name comes first.
 * `body` throws `WorkflowNotFoundError` if the workflow has ended.
 */
export function withNamed<T>(
  context: VerbContext,
  given: string,
  body: (handle: DurableHandle<unknown, unknown>, name: string) => Promise<T>,
): Promise<T> {
  return reached(context, given, async (longhaul) => {
    try {
      return await steered(longhaul, given, (handle) => body(handle, given));
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      const name = fullName(given, [...(await knownNames(context)), ...(await liveRollouts(longhaul))], 'RUN');
      if (name === undefined || name === given) throw error;
      return steered(longhaul, name, (handle) => body(handle, name));
    }
  });
}

/** Temporal returns the same error for a run that has ended and for one that never existed. */
async function remedyFor(run: string, context: VerbContext): Promise<string> {
  if (evalOf(run) !== undefined) return 'no eval with this name is running';
  const known = await knownRuns(context);
  if (isSingleRollout(run))
    return (
      'no rollout with this id is ' +
      `running${(await knownNames(context)).includes(run) ? `; show it with: npx longhaul trajectory ${run}` : ''}`
    );
  if (known.includes(run))
    return (
      `it has ended; show it with: npx longhaul show ${run}. If it failed or was cancelled, resume it with: ` +
      'npx longhaul train CONFIG --again'
    );
  return otherName(
    run,
    (await knownNames(context)).filter((name) => !isSingleRollout(name)),
  );
}
