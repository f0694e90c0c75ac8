/** Tasks of runs that no test opens: what a run's record says of them, and a configuration that has been opened. */

import { resolveRunConfig } from '../../config/run-config.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import type { OpenedTasks } from '../../protocol/task-key.ts';

export const someTasks: OpenedTasks = {
  catalog: 'sha256:00',
  train: [{ source: 'toy', split: 'train', count: 100, weight: 1 }],
  heldOut: [{ source: 'toy', split: 'held-out', count: 2 }],
};

/** As an opened run has it, whatever its datasets are: pools of the size that is asked for, or of 1000. */
export function openedConfig(given: unknown): OpenedConfig {
  const config = resolveRunConfig(given, '/');
  const { tasks, evaluation } = config;
  const train = tasks.map(({ source, split, weight, train: count = 1000 }) => ({ source, split, count, weight }));
  const [{ source } = { source: 'toy' }] = tasks;
  const heldOut = [{ source, split: 'held-out', count: evaluation.tasks ?? 200 }];
  return { ...config, opened: { catalog: 'sha256:00', train, heldOut } };
}
