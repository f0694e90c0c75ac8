/** The names of a batch's rollouts: known before any of them has begun, and the same however often it is asked. */

/** Workflow ids of a batch's rollouts, task-major: `BATCH/TASK/K`, K from `firstSample` on. */
export function rolloutIds(batch: string, tasks: readonly string[], samples: number, firstSample = 0): string[] {
  return tasks.flatMap((task) => Array.from({ length: samples }, (_, k) => `${batch}/${task}/${firstSample + k}`));
}
