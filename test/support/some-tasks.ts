/** Tasks of runs that a test does not open: those of a run's record, and an opened configuration. */

import { resolveRunConfig } from '../../config/run-config.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import type { OpenedTasks } from '../../protocol/task-key.ts';

export const someTasks: OpenedTasks = {
  catalog: 'sha256:00',
  train: [{ source: 'toy', split: 'train', count: 100, weight: 1 }],
  heldOut: [{ source: 'toy', split: 'held-out', count: 2 }],
};

/** The configuration of an opened run, without its datasets: its pools have the given size, or 1000 tasks. */
export function openedConfig(given: unknown): OpenedConfig {
  const config = resolveRunConfig(given, '/');
  const { tasks, evaluation } = config;
  const train = tasks.map(({ source, split, weight, train: count = 1000 }) => ({ source, split, count, weight }));
  const [{ source } = { source: 'toy' }] = tasks;
  const heldOut = [{ source, split: 'held-out', count: evaluation.tasks ?? 200 }];
  return { ...config, opened: { catalog: 'sha256:00', train, heldOut } };
}
