/**
 * Steps of an environment, run again on the messages of a recorded rollout. If a step answers otherwise than it did,
 * the policy would have read something else, and the rollout cannot be graded again.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Place } from '../../protocol/frames.ts';
import type { ActRecord, StartRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { RewardInput } from '../../protocol/stages.ts';
import { spoken } from '../../protocol/transcript.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import type { StepResult } from '../../tasks/environment.ts';
import type { LoadedTask } from '../../tasks/task-loader.ts';
import { bareContext } from '../../activities/task-context.ts';

/** A step answers otherwise today. */
export class StepDiffers extends Error {
  override readonly name = 'StepDiffers';

  constructor(turn: number, what: string) {
    super(
      `step of turn ${turn} ${what} today than it did then: the policy would have read something else, ` +
        'so its rollout cannot be graded again',
    );
  }
}

function differenceOf(today: StepResult, then: ActRecord): string | undefined {
  const said = (messages: unknown): unknown => JSON.parse(JSON.stringify(messages));
  if (!isDeepStrictEqual(said(today.messages), said(then.messages))) return 'answers otherwise';
  if ((today.done ?? false) !== (then.done ?? false)) return 'ends the rollout elsewhere';
  return undefined;
}

const pureContext = (input: RewardInput, turn: number, { agentPath }: Place, signal: AbortSignal) =>
  bareContext({
    ...(agentPath && { agentPath }),
    key: input.task,
    id: `${input.rollout}/${turn}/step`,
    execution: 1,
    signal,
    ask: () => Promise.reject(new TypeError('a pure step asks no judge')),
    deadline: Number.POSITIVE_INFINITY,
  });

/**
 * Records the states and rewards of today's steps in `store`, in which the second grading reads them. Errors:
 * `StepDiffers`; those of the step.
 */
export async function stepsAgain(
  input: RewardInput,
  { task }: LoadedTask,
  store: Store,
  signal: AbortSignal,
): Promise<void> {
  const turns = (await turnsOf(store, input)).slice(0, input.turns);
  const acts = await actsOf(store, input);
  let state = (await store.get<StartRecord>(keys.start(input)))?.state;
  for (const [i, record] of turns.entries()) {
    const then = acts.get(i + 1);
    if (record.command?.do !== 'step' || then === undefined || task.step === undefined) continue;
    const today = await task.step(pureContext(input, i + 1, record, signal), state, spoken(record).content);
    const difference = differenceOf(today, then);
    if (difference !== undefined) throw new StepDiffers(i + 1, difference);
    const { reward: _reward, metrics: _metrics, ...rest } = then;
    const { reward, metrics } = today;
    state = today.state;
    await store.putOnce<ActRecord>(keys.act(input, i + 1), {
      ...rest,
      state,
      ...(reward !== undefined && { reward }),
      ...(metrics && { metrics }),
    });
  }
}
