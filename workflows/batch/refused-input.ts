/** The first thing of a batch's input that cannot be used, whoever wrote it, in whatever language. Pure. */

import { MOST_ROLLOUTS, MOST_TASKS } from '../../protocol/limits.ts';
import type { BatchInput } from '../../protocol/batch.ts';
import type { RefusedSetting } from './dispatch-schedule.ts';

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const isWhole = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && Number(value) >= least;
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;

type Rules = { readonly [K in keyof BatchInput]?: readonly [holds: (value: unknown) => boolean, remedy: string] };

const WHOLE = 'give a whole number of at least';
const RULES: Rules = {
  run: [isText, 'give the name of what the rollouts belong to'],
  name: [isText, "give the last part of the batch's workflow id"],
  step: [(value) => isWhole(value, 0), `${WHOLE} 0`],
  tasks: [
    (value) => Array.isArray(value) && value.length <= MOST_TASKS && value.every(isText),
    `give a list of task ids, at most ${MOST_TASKS}`,
  ],
  samples: [(value) => isWhole(value, 1), `${WHOLE} 1`],
  firstSample: [(value) => value === undefined || isWhole(value, 0), `${WHOLE} 0`],
  agent: [isObject, 'give { maxTurns, maxContextTokens, toolTimeoutSeconds }'],
  sampling: [isObject, 'give { temperature, topP, topK, maxTokens }'],
  dispatcher: [isObject, 'give { type }, and its widths'],
};

/** Its policy, dispatcher and stragglers are looked at elsewhere. */
export function refusedInput(input: BatchInput): RefusedSetting | undefined {
  for (const [field, [holds, remedy]] of Object.entries(RULES)) {
    const value: unknown = (input as BatchInput | undefined)?.[field as keyof BatchInput];
    if (!holds(value))
      return {
        field,
        value: field === 'tasks' && Array.isArray(value) ? `${value.length} of them` : (value ?? null),
        remedy,
      };
  }
  const rollouts = input.tasks.length * input.samples;
  return rollouts > MOST_ROLLOUTS
    ? {
        field: 'samples',
        value: input.samples,
        remedy: `give less: ${rollouts} rollouts are more than a batch's ${MOST_ROLLOUTS}`,
      }
    : undefined;
}
