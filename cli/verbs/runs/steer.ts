/** `longhaul pause`, `resume`, `cancel`, `set`: steering a live run. */

import { WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { Interrupted, UserInputError } from '../../../client/errors.ts';
import { withNamed, withRun, withSteered } from '../../connect/with-run.ts';
import { evalOf } from '../../eval/local-eval.ts';
import type { DurableHandle } from '../../../client/durable-handle.ts';
import { RunHandle } from '../../../client/run-handle.ts';
import { RECONFIGURABLE } from '../../../workflows/training/reconfigure.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';
import type { PausePoint } from '../../../protocol/train-status.ts';
import type { Verb } from '../../verb.ts';

function signalVerb(done: string, act: (handle: DurableHandle<unknown, unknown>) => Promise<unknown>): Verb {
  return {
    define(command, run) {
      command.argument('<run>', 'name of the run, eval/ID, or the id of a rollout of its own').action((id: string) =>
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
  turn: 'pauses: its rollouts stop before their next turn, and nothing new begins',
  step: 'pauses before its next step or evaluation',
};

/** Evals and rollouts of their own have no steps. */
async function pause(handle: DurableHandle<unknown, unknown>, at: PausePoint): Promise<void> {
  if (handle instanceof RunHandle) return handle.pause(at);
  if (at !== 'turn') throw new UserInputError('--at', at, 'give turn: only runs have steps');
  return handle.pause();
}

export const pauseVerb: Verb = {
  define(command, run) {
    command
      .description('Pauses a run, for as long as it takes; its sandboxes are kept. `resume` undoes it.')
      .argument('<run>', 'name of the run, eval/ID, or the id of a rollout of its own')
      .option('--at <point>', 'turn: rollouts stop before their next turn; step: what is under way ends first', 'turn')
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
export const resumeVerb = signalVerb('goes on', (handle) => handle.resume());
export const cancelVerb: Verb = {
  define(command, run) {
    command
      .argument('<run>', 'name of the run, eval/ID, or id of a single rollout; a start that only one has is enough')
      .action((id: string) =>
        run((context) =>
          withNamed(context, id, async (handle, name) => {
            // The server takes a cancellation of what has ended as well, and does nothing.
            if (!(await handle.isRunning()))
              throw new WorkflowNotFoundError('it has ended', handle.workflowId, undefined);
            await handle.cancel();
            const done =
              'is being cancelled; its sandboxes are released, and the command that started it resumes it (a run: with --again)';
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

/** It is answered when the run has begun and a worker is there: nobody is held until then. */
function untilInterrupted<T>(run: string, signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const end = () =>
    reject(
      new Interrupted(
        `interrupted before run ${run} answered: if it takes the change all the same, npx longhaul show ${run} says so`,
      ),
    );
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  return Promise.race([promise, ...(signal.aborted ? [] : [ask()])]);
}

/** Errors: `UserInputError` with the run's own words for a change that it refuses; `Interrupted`. */
async function configure(handle: RunHandle, assignments: readonly string[], signal: AbortSignal): Promise<RunConfig> {
  const change = changes(assignments);
  try {
    return await untilInterrupted(handle.run, signal, () => handle.configure(change, signal));
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
        `Changes a live run from its next step on, and writes that down in changes.jsonl of its folder: ${RECONFIGURABLE.join(', ')}; ` +
          'or by the names of the configuration (algorithm.learningRate, the highest, before the schedule).',
      )
      .argument('<run>', 'name of the run')
      .argument('<k=v...>', 'settings')
      .action((id: string, assignments: string[]) =>
        run(async (context) => {
          changes(assignments);
          if (evalOf(id) !== undefined)
            throw new UserInputError(
              'RUN',
              id,
              'give a run: the settings of an eval cannot be changed while it goes on',
            );
          const config = await withRun(context, id, (handle) => configure(handle, assignments, context.signal));
          context.say(`run ${id} changed: ${assignments.join(' ')}`);
          return { document: config };
        }),
      );
  },
};
