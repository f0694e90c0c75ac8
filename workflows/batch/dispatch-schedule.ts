/**
 * What a dispatcher's settings mean: caps, and the order in which rollouts start. The names are SkyRL-Agent's; a
 * setting that has no effect with the chosen type is refused.
 */

import type { Caps } from './dispatcher.ts';
import type { BatchInput, DispatcherSettings } from '../../protocol/batch.ts';

export const DISPATCHER_TYPES = ['batch', 'bounded', 'pipeline'] as const;

const TAKES: Readonly<Record<DispatcherSettings['type'], ReadonlyArray<keyof DispatcherSettings>>> = {
  batch: ['type'],
  bounded: ['type', 'maxParallelAgents'],
  pipeline: ['type', 'maxParallelAgents', 'maxEvalParallelAgents'],
};

const DEFAULT_WIDTH = 32;

/** Sandboxes that a pipeline holds for each rollout in agent-run: one in use, one being prepared, one being graded. */
export const SANDBOXES_PER_RUN = 3;

export interface Schedule {
  readonly caps: Caps;
  /** `task`: all samples of a task, then the next task. `sample`: the first sample of every task, then the second. */
  readonly order: 'task' | 'sample';
}

export interface RefusedSetting {
  readonly field: string;
  readonly value: unknown;
  readonly remedy: string;
}

/** The first setting that cannot be used, if there is one. */
export function refusedSetting(settings: DispatcherSettings): RefusedSetting | undefined {
  const takes: readonly string[] | undefined = TAKES[settings.type];
  if (takes === undefined)
    return { field: 'type', value: settings.type, remedy: `give one of ${DISPATCHER_TYPES.join(', ')}` };
  for (const [field, value] of Object.entries(settings)) {
    if (field === 'type' || value === undefined) continue;
    if (!takes.includes(field)) {
      const types = DISPATCHER_TYPES.filter((type) => (TAKES[type] as readonly string[]).includes(field));
      const other = types.length > 0 ? `, or choose ${types.join(' or ')}` : '';
      return { field, value, remedy: `it has no effect with ${settings.type}: remove it${other}` };
    }
    if (!Number.isSafeInteger(value) || Number(value) < 1)
      return { field, value, remedy: 'give a whole number of at least 1' };
  }
  return undefined;
}

/** The settings with the default width filled in. The width of reward equals it if it is absent. */
export function resolveDispatcher(settings: DispatcherSettings): DispatcherSettings {
  return settings.type === 'batch'
    ? settings
    : { ...settings, maxParallelAgents: settings.maxParallelAgents ?? DEFAULT_WIDTH };
}

const FREE: Caps = {
  open: Number.POSITIVE_INFINITY,
  init: Number.POSITIVE_INFINITY,
  'agent-run': Number.POSITIVE_INFINITY,
  reward: Number.POSITIVE_INFINITY,
};

/**
 * `batch`: all rollouts at once. `bounded`: at most `maxParallelAgents` whole rollouts. `pipeline`: at most so many in
 * agent-run, and `maxEvalParallelAgents` in reward; init works ahead, with three sandboxes for each place in agent-run.
 */
export function scheduleOf(given: DispatcherSettings): Schedule {
  const {
    type,
    maxParallelAgents: width = FREE.open,
    maxEvalParallelAgents: reward = width,
  } = resolveDispatcher(given);
  if (type === 'batch') return { caps: FREE, order: 'task' };
  if (type === 'bounded') return { caps: { ...FREE, open: width }, order: 'task' };
  // Samples of one task take about equally long: spread out, those of the slowest task do not all come last.
  return { caps: { ...FREE, open: SANDBOXES_PER_RUN * width, 'agent-run': width, reward }, order: 'sample' };
}

/**
 * The numbers of the rollouts of tasks `from` to `to`, which are numbered task by task, in the order of their starts.
 * If a batch draws groups by need, a task's samples stay together: only when all have ended, it is known whether the
 * group varies.
 */
export function beginOrder(
  { samples, wanted }: Pick<BatchInput, 'samples' | 'wanted'>,
  from: number,
  to: number,
  order: Schedule['order'],
): number[] {
  const tasks = Array.from({ length: to - from }, (_, i) => from + i);
  const each = Array.from({ length: samples }, (_, k) => k);
  return order === 'task' || wanted !== undefined
    ? tasks.flatMap((task) => each.map((k) => task * samples + k))
    : each.flatMap((k) => tasks.map((task) => task * samples + k));
}
