/** `longhaul pause`, `resume`, `cancel`, `set`: steering a live run. */

import { WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { Interrupted, UserInputError } from '../../../client/errors.ts';
import { withNamed, withSteered } from '../../connect/with-run.ts';
import { evalOf } from '../../eval/local-eval.ts';
import { type DurableHandle, EvalHandle } from '../../../client/durable-handle.ts';
import { RunHandle } from '../../../client/run-handle.ts';
import { isBudget, RECONFIGURABLE } from '../../../workflows/training/reconfigure.ts';
import type { OpenedSweep } from '../../../protocol/eval.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';
import type { PausePoint } from '../../../protocol/train-status.ts';
import type { Verb } from '../../verb.ts';

function signalVerb(done: string, act: (handle: DurableHandle<unknown, unknown>) => Promise<unknown>): Verb {
  return {
    define(command, run) {
      command.argument('<run>', 'name of the run, eval/ID, or id of a single rollout').action((id: string) =>
        run((context) =>
          withSteered(context, id, async (handle) => {
            await act(handle);
            context.say(`${handle instanceof RunHandle ? 'run ' : ''}${id} ${done}`);
            return { document: { run: id, done } };
          }),
        ),
      );
    },
  };
}

const PAUSES: Readonly<Record<string, string>> = {
  turn: 'pauses: its rollouts stop before their next turn, and nothing new starts',
  step: 'pauses before its next step or evaluation',
};

/** Evals and single rollouts have no steps. */
async function pause(handle: DurableHandle<unknown, unknown>, at: PausePoint): Promise<void> {
  if (handle instanceof RunHandle) return handle.pause(at);
  if (at !== 'turn') throw new UserInputError('--at', at, 'give turn: only runs have steps');
  return handle.pause();
}

export const pauseVerb: Verb = {
  define(command, run) {
    command
      .description('Pauses a run until `resume`. Its sandboxes are kept.')
      .argument('<run>', 'name of the run, eval/ID, or id of a single rollout')
      .option('--at <point>', 'turn: rollouts stop before their next turn; step: open rollouts end first', 'turn')
      .action((id: string, { at }: { at: string }) =>
        run((context) => {
          const done = PAUSES[at];
          if (done === undefined) throw new UserInputError('--at', at, 'give turn or step');
          return withSteered(context, id, async (handle) => {
            await pause(handle, at as PausePoint);
            context.say(`${handle instanceof RunHandle ? 'run ' : ''}${id} ${done}`);
            return { document: { run: id, done, at } };
          });
        }),
      );
  },
};
export const resumeVerb = signalVerb('continues', (handle) => handle.resume());
export const cancelVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run, eval/ID, or id of a single rollout; a unique prefix is enough')
      .action((id: string) =>
        run((context) =>
          withNamed(context, id, async (handle, name) => {
            // The server accepts a cancellation of an ended workflow and does nothing.
            if (!(await handle.isRunning()))
              throw new WorkflowNotFoundError('it has ended', handle.workflowId, undefined);
            await handle.cancel();
            const done =
              'is being cancelled; its sandboxes are released, and the command that started it resumes it (a ' +
              'run: with --again)';
            context.say(`${handle instanceof RunHandle ? 'run ' : ''}${name} ${done}`);
            return { document: { run: name, done } };
          }),
        ),
      );
  },
};

function changes(assignments: readonly string[]): Record<string, number> {
  const given = new Map<string, number>();
  for (const assignment of assignments) {
    const at = assignment.indexOf('=');
    const [key, value] = [assignment.slice(0, Math.max(at, 0)).trim(), assignment.slice(at + 1).trim()];
    if (key === '' || value === '' || !Number.isFinite(Number(value)))
      throw new UserInputError('k=v', assignment, 'write it as learningRate=0.0001');
    if (given.has(key)) throw new UserInputError('k=v', assignment, `give ${key} once`);
    given.set(key, Number(value));
  }
  return Object.fromEntries(given);
}

/** The run answers once it has started and a worker is available; an interrupt ends the wait. */
function untilInterrupted<T>(run: string, signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const end = () =>
    reject(
      new Interrupted(
        `interrupted before ${run} answered; it may still make the change. Check with: npx longhaul show ${run}`,
      ),
    );
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  return Promise.race([promise, ...(signal.aborted ? [] : [ask()])]);
}

/** Errors: `UserInputError` with the run's message for a change that it refuses; `Interrupted`. */
async function configure(
  name: string,
  handle: RunHandle | EvalHandle,
  assignments: readonly string[],
  signal: AbortSignal,
): Promise<RunConfig | OpenedSweep> {
  const change = changes(assignments);
  try {
    return await untilInterrupted<RunConfig | OpenedSweep>(name, signal, () => handle.configure(change, signal));
  } catch (error) {
    if (!(error instanceof WorkflowUpdateFailedError)) throw error;
    const { cause } = error;
    throw new UserInputError('k=v', assignments.join(' '), cause instanceof Error ? cause.message : error.message);
  }
}

export const setVerb: Verb = {
  define(command, run) {
    command
      .description(
        'Changes settings of a live run from its next step on, and records them in changes.jsonl of its ' +
          `folder: ${RECONFIGURABLE.join(', ')}; ` +
          "or by the configuration's names. Of an eval: its budgets. algorithm.learningRate is the highest " +
          'rate, before the schedule.',
      )
      .argument('<run>', 'name of the run, or eval/ID')
      .argument('<k=v...>', 'settings')
      .action((id: string, assignments: string[]) =>
        run(async (context) => {
          const names = Object.keys(changes(assignments));
          if (evalOf(id) !== undefined && !names.every(isBudget))
            throw new UserInputError('RUN', id, 'give a run: of an eval that runs, only budgets can be changed');
          const config = await withSteered(context, id, (handle) => {
            if (handle instanceof RunHandle || handle instanceof EvalHandle)
              return configure(id, handle, assignments, context.signal);
            throw new UserInputError('RUN', id, 'give a run or an eval: a single rollout keeps its settings');
          });
          context.say(`${evalOf(id) === undefined ? 'run ' : ''}${id} changed: ${assignments.join(' ')}`);
          return { document: config };
        }),
      );
  },
};
