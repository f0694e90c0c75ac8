/** A handle on a run of the stack that this working directory (or Temporal's environment) points to. */

import { WorkflowNotFoundError } from '@temporalio/client';
import { chooseCluster } from '../../workers/stack/choose-cluster.ts';
import { stackHome, stackPaths } from '../../workers/stack/stack-paths.ts';
import { readStackState } from '../../workers/stack/stack-state.ts';
import { isStackUp } from '../../workers/stack/stop-stack.ts';
import type { ConnectOptions } from '../connect.ts';
import { Unreachable, UserInputError } from '../errors.ts';
import type { DurableHandle } from '../durable-handle.ts';
import { evalOf } from '../eval/local-eval.ts';
import { Longhaul } from '../longhaul.ts';
import type { RunHandle } from '../run-handle.ts';
import type { VerbContext } from '../verb.ts';
import { knownRuns } from './local-store.ts';

const START = 'Start the stack: npx longhaul up --detach';

/**
 * Errors: `Unreachable` where the stack is down that has a server of its own, or never was: its port, or the one that is
 * Temporal's by custom, may be another folder's stack's.
 */
function placeOf({ env, cwd }: VerbContext): ConnectOptions {
  if (env['TEMPORAL_ADDRESS'] || env['TEMPORAL_PROFILE']) return {};
  const paths = stackPaths(stackHome(env, cwd));
  const stack = readStackState(paths.state);
  if (stack === undefined && chooseCluster(env).kind === 'existing') return {};
  if (stack === undefined) throw new Unreachable(`The stack in ${paths.home}`, START, { how: 'is not up' });
  const { address, namespace, ports } = stack;
  if (ports !== undefined && !isStackUp(paths)) throw new Unreachable(`The stack in ${paths.home}`, START, { how: 'is not up' });
  return { address, namespace };
}

/** Errors: `Unreachable` when Temporal does not answer. */
export async function withLonghaul<T>(context: VerbContext, body: (longhaul: Longhaul) => Promise<T>): Promise<T> {
  const place = placeOf(context);
  let longhaul: Longhaul;
  try {
    longhaul = await Longhaul.connect(place);
  } catch (error) {
    if (error instanceof UserInputError) throw error;
    const address = place.address ?? (context.env['TEMPORAL_ADDRESS'] || 'localhost:7233');
    throw new Unreachable(`Temporal at ${address}`, START, { cause: error });
  }
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

/** As `withRun`, for a run or, as `eval/ID`, an eval. */
export function withSteered<T>(context: VerbContext, name: string, body: (handle: DurableHandle<unknown, unknown>) => Promise<T>): Promise<T> {
  const id = evalOf(name);
  return reached(context, name, (longhaul) => body(id === undefined ? longhaul.run(name) : longhaul.evaluation(id)));
}

/** Temporal says the same of a run that has ended as of one that never was. */
async function remedyFor(run: string, context: VerbContext): Promise<string> {
  if (evalOf(run) !== undefined) return 'no eval of that name is going on';
  const known = await knownRuns(context);
  if (known.includes(run)) return `it has ended; look at it with: npx longhaul show ${run}, or resume one that failed or was cancelled: npx longhaul train CONFIG --again`;
  return known.length > 0 ? `give one of ${known.join(', ')}` : 'there is no run yet';
}
