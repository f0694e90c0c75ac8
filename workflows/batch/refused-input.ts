/**
 * The first field of a batch's input that cannot be used: any Temporal client, in any language, may have written it.
 * Pure.
 */

import { MOST_ROLLOUTS, MOST_TASKS } from '../../protocol/limits.ts';
import type { BatchInput } from '../../protocol/batch.ts';
import type { RefusedSetting } from './dispatch-schedule.ts';

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const isWhole = (value: unknown, least: number): boolean => Number.isSafeInteger(value) && Number(value) >= least;
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;

type Rules = { readonly [K in keyof BatchInput]?: readonly [holds: (value: unknown) => boolean, remedy: string] };

const WHOLE = 'give a whole number of at least';
const RULES: Rules = {
  run: [isText, 'give the name of the run or eval that the rollouts belong to'],
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

/** The policy, the dispatcher and the stragglers are checked elsewhere. */
export function refusedInput(input: BatchInput): RefusedSetting | undefined {
  for (const [field, [holds, remedy]] of Object.entries(RULES)) {
    const value: unknown = (input as BatchInput | undefined)?.[field as keyof BatchInput];
    if (!holds(value))
      return {
        field,
        value: field === 'tasks' && Array.isArray(value) ? `${value.length} entries` : (value ?? null),
        remedy,
      };
  }
  const rollouts = input.tasks.length * input.samples;
  return rollouts > MOST_ROLLOUTS
    ? {
        field: 'samples',
        value: input.samples,
        remedy: `give less: a batch may have ${MOST_ROLLOUTS} rollouts, and these would be ${rollouts}`,
      }
    : undefined;
}
