/**
 * Runs a single rollout: starts the stack if it is not up, starts the rollout or attaches to it, and shows its turns
 * until it ends. The rollout does not need this process: interrupting it stops nothing.
 */

import { type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Trajectory, trajectoryOf } from '../../reports/trajectories.ts';
import { storeUrl } from '../../connection/store-url.ts';
import { openStore } from '../../store/open-store.ts';
import type { Store } from '../../store/store.ts';
import { openingMessages } from '../../tasks/opening-messages.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { environmentNames } from '../../tasks/registry.ts';
import { readTaskKey } from '../../protocol/task-key.ts';
import { putCatalog } from '../../store/read-records.ts';
import { recordBundle } from '../../activities/orchestrator/open-modules.ts';
import type { Bundle } from '../../modules/bundle.ts';
import { ensureStack, type RunningStack } from '../../stack/ensure-stack.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import { tripLine } from '../../protocol/breaker.ts';
import type { RolloutState } from '../../workflows/rollout.ts';
import type { RolloutInput, RolloutResult } from '../../protocol/rollout.ts';
import { allowRollout } from '../connect/allow-named.ts';
import { whileAway } from '../../client/while-away.ts';
import { exitCodeOf, Interrupted, UserInputError } from '../../client/errors.ts';
import { Longhaul } from '../../client/longhaul.ts';
import type { VerbContext } from '../verb.ts';
import { TurnPrinter } from './show-turns.ts';

const POLL_MS = 250;

export interface RolloutEnd {
  readonly rollout: string;
  readonly ui: string;
  readonly result: RolloutResult;
  /** The whole conversation; absent if the store has none. */
  readonly trajectory?: Trajectory;
}

async function stateOf(handle: WorkflowHandle): Promise<RolloutState | undefined> {
  try {
    return await handle.query<RolloutState>('state');
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      throw new UserInputError('--attach', handle.workflowId, 'give the id of a rollout that was started here', {
        cause: error,
      });
    }
    // No worker answers at the moment, or the rollout was refused before it could answer: its result has the reason.
    return undefined;
  }
}

/** Prints what is known of the rollout so far, its prompt first. */
class Follower {
  readonly #rollout: string;
  readonly #printer: TurnPrinter;
  readonly #tasks: TaskLoader;
  readonly #store: Store;
  readonly #say: (line: string) => void;
  #begun = false;
  #paused = false;
  #held = '';

  constructor(rollout: string, store: Store, say: (line: string) => void) {
    this.#rollout = rollout;
    this.#printer = new TurnPrinter(rollout, store, say);
    this.#tasks = new TaskLoader(store);
    this.#store = store;
    this.#say = say;
  }

  async print({
    task,
    catalog,
    attempt,
    paused = false,
    held,
  }: Pick<RolloutState, 'task' | 'catalog' | 'attempt' | 'held'> & { readonly paused?: boolean }): Promise<void> {
    const ref = { task, ...(catalog && { catalog }) };
    if (!this.#begun)
      this.#printer.prompt(
        await openingMessages({ ...ref, rollout: this.#rollout, attempt }, { store: this.#store, tasks: this.#tasks }),
      );
    this.#begun = true;
    await this.#printer.print(attempt);
    if (paused !== this.#paused) this.#say(paused ? '── paused' : '── continues');
    this.#paused = paused;
    const why = held ? tripLine(held, this.#rollout) : '';
    if (why !== this.#held) this.#say(why === '' ? '── resumed' : `── ${why}`);
    this.#held = why;
  }
}

/** Shows turns until the rollout has ended. Errors: `AbortError` if `signal` fires first; `WorkflowFailedError`. */
async function followed(handle: WorkflowHandle, store: Store, { say, signal }: VerbContext): Promise<RolloutResult> {
  const follower = new Follower(handle.workflowId, store, say);
  let over = false;
  // The handle fails while the server is not reachable; the rollout does not fail.
  const ended = whileAway(() => handle.result(), { signal, onAway: (line) => say(line) }).finally(() => {
    over = true;
  }) as Promise<RolloutResult>;
  ended.catch(() => undefined);
  while (!over) {
    signal.throwIfAborted();
    const state = await stateOf(handle);
    if (state) await follower.print(state);
    await Promise.race([ended.catch(() => undefined), sleep(POLL_MS, undefined, { signal })]);
  }
  const result = await ended;
  await follower.print(result);
  return result;
}

/** What is started; both are absent for a rollout that was started before. */
export interface NewRollout {
  readonly input: RolloutInput | undefined;
  /** Defines its task, or a tool of it. */
  readonly modules: Bundle | undefined;
}

/** With modules, a catalog says that the task is theirs: the workers import them from the store. */
async function withCatalog(input: RolloutInput, modules: Bundle, store: Store): Promise<RolloutInput> {
  await recordBundle(modules, store);
  const { source = '' } = readTaskKey(input.task, environmentNames(modules.digest)) ?? {};
  const sources = { [source]: { environment: source, options: {} } };
  return { ...input, catalog: await putCatalog({ sources, modules: modules.digest }, store) };
}

async function onStack(
  rollout: string,
  { input, modules }: NewRollout,
  stack: RunningStack,
  context: VerbContext,
  onStart: () => void,
): Promise<RolloutEnd> {
  const longhaul = await Longhaul.connect({ home: stack.stateDir, namespace: stack.namespace }, context);
  const store = await openStore(storeUrl(stack.stateDir, context.env, context.cwd));
  try {
    context.signal.throwIfAborted();
    const handle = input
      ? await longhaul.startRollout(modules ? await withCatalog(input, modules, store) : input, rollout)
      : longhaul.client.workflow.getHandle(rollout);
    onStart();
    const ui =
      stack.ui === '' ? '' : `${stack.ui}/namespaces/${stack.namespace}/workflows/${encodeURIComponent(rollout)}`;
    context.say(`rollout ${rollout}${ui ? `\nTemporal UI: ${ui}` : ''}`);
    const result = await followed(handle, store, context);
    const trajectory = await trajectoryOf(rollout, { store, tasks: new TaskLoader(store) });
    return { rollout, ui, result, ...(trajectory ? { trajectory } : {}) };
  } finally {
    await store.close();
    await longhaul.close();
  }
}

/**
 * Starts a rollout under the id `rollout`; without an input, attaches to the one with that id.
 * Errors: `UserInputError`; `Unreachable`; `Interrupted`, whose message says whether the rollout continues.
 */
export async function runRollout(rollout: string, begun: NewRollout, context: VerbContext): Promise<RolloutEnd> {
  let started = false;
  const onStart = () => {
    started = true;
  };
  try {
    const home = stackHome(context.env, context.cwd);
    if (begun.input) await allowRollout(context, begun.input);
    const stack = await ensureStack({ home, env: context.env, say: context.note, signal: context.signal });
    return await onStack(rollout, begun, stack, context, onStart);
  } catch (error) {
    if (!context.signal.aborted || exitCodeOf(error) === 2) throw error;
    const message = started
      ? `rollout ${rollout} continues; attach with: npx longhaul rollout --attach ${rollout}`
      : `interrupted before rollout ${rollout} was started. The stack may be running; stop it with: npx longhaul down`;
    throw new Interrupted(message, { cause: error });
  }
}
