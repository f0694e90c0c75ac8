/**
 * The environment `gsm8k_multi_turn`: several tries with feedback. Each turn has SkyRL-Gym's reward: 1 for the right
 * answer, which ends the rollout, 0.2 shared by all turns for a wrong number, 0 for none.
 */

import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, StepResult, Task } from '../environment.ts';
import { instructionOption, messagesOf, MOST_READ } from '../question-records.ts';
import { gradeAnswer, type Grading, gradingOptions, gsm8kRecord, type Gsm8kRecord, solutionOf } from './gsm8k.ts';

const INSTRUCTION =
  'Think step by step in each of your messages. You have several tries. End each with the answer as "#### ANSWER".';
/** Shared by the turns. */
const FOR_FORMAT = 0.2;
const TURNS = 5;

/** What the next turn asks for. */
export type Feedback = 'reasoning_then_answer' | 'final_only';

const FEEDBACK: Readonly<Record<Feedback, string>> = {
  reasoning_then_answer: 'That is not the answer yet. Reason once more, then give a number as "#### ANSWER".',
  final_only: 'This is your last try. Write nothing but the final number, as "#### ANSWER".',
};

const turns = z.coerce.number().pipe(z.int().min(1).max(1000));
const extras = z.looseObject({
  max_turns: turns.nullish(),
  extra_info: z.looseObject({ max_turns: turns.nullish() }).nullish(),
});

/**
 * The number of tries that a record of SkyRL's allows: its `max_turns`, else `extra_info.max_turns`, else 5.
 * `otherwise`: for a record without both fields. Errors: `UserInputError` without `otherwise`, where SkyRL has none
 * either.
 */
export function turnsOf(record: unknown, otherwise?: number): number {
  const { max_turns: own, extra_info: info } = extras.parse(record);
  const given = own ?? info?.max_turns ?? otherwise ?? (info ? TURNS : undefined);
  if (given === undefined) throw new UserInputError('extra_info', undefined, 'give max_turns, or extra_info.max_turns');
  return given;
}

/** SkyRL-Gym's step, as a pure function. `turn`: from 1. */
export function multiTurnStep(
  message: string,
  number: Gsm8kRecord['number'],
  grading: Grading,
  turn: number,
  most: number,
): { readonly passed: boolean; readonly done: boolean; readonly reward: number; readonly feedback?: Feedback } {
  const { format, passed } = gradeAnswer(message, number, grading);
  const done = passed || turn >= most;
  const reward = passed ? 1 : format ? FOR_FORMAT / most : 0;
  return {
    passed,
    done,
    reward,
    ...(!done && { feedback: turn >= most - 1 ? 'final_only' : 'reasoning_then_answer' }),
  };
}

interface State {
  readonly turns: number;
  readonly passed: boolean;
}

const options = z.strictObject({
  ...recordOptions,
  ...gradingOptions,
  instruction: instructionOption(INSTRUCTION),
  /** Tries, for records that do not say it. */
  maxTurns: z.int().min(1).max(1000).default(TURNS),
});
type Options = z.output<typeof options>;

const record = gsm8kRecord.transform((read, context) => {
  const given = extras.safeParse(read);
  const { path = [], message = '' } = given.error?.issues[0] ?? {};
  if (!given.success) context.addIssue({ code: 'custom', path, message });
  return read;
});

function taskOf(read: Gsm8kRecord, given: Options): Task {
  const most = turnsOf(read.max_turns == null && read.extra_info == null ? {} : read, given.maxTurns);
  return {
    messages: messagesOf(read, given.instruction),
    tools: [],
    gradedIn: 'none',
    start: async () => await Promise.resolve({ state: { turns: 0, passed: false } satisfies State }),

    stepIsPure: true,

    async step(_ctx, state, message): Promise<StepResult> {
      const turn = (state as State).turns + 1;
      const { passed, done, reward, feedback } = multiTurnStep(
        message.slice(-MOST_READ),
        read.number,
        given,
        turn,
        most,
      );
      return await Promise.resolve({
        state: { turns: turn, passed } satisfies State,
        messages: feedback === undefined ? [] : [{ role: 'user' as const, content: FEEDBACK[feedback] }],
        done,
        reward,
      });
    },

    async grade(_ctx, { state, turnRewards }) {
      const { turns: used, passed } = state as State;
      const reward = turnRewards.reduce((sum, one) => sum + one, 0);
      const format = used === 0 ? 0 : turnRewards.filter((one) => one > 0).length / used;
      return await Promise.resolve({
        code: 'graded',
        reward,
        passed,
        reason: passed ? `right in turn ${used} of ${most}` : `not right in ${used} of ${most} turns`,
        parts: { format, outcome: Number(passed) },
        metrics: { avg_steps: used },
      });
    },

    oracle: async () => await Promise.resolve([{ role: 'assistant', content: solutionOf(read, given) }]),
  };
}

export const gsm8kMultiTurn: Environment<Options> = {
  name: 'gsm8k_multi_turn',
  options,
  open: (given, io) => openRecords(given, io, record, (read) => taskOf(read, given)),
};
