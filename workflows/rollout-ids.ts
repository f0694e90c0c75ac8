/** The names of a batch's rollouts: known before any of them has begun, and the same however often it is asked. */

/** Workflow ids of a batch's rollouts, task-major: `BATCH/TASK/K`. */
export function rolloutIds(batch: string, tasks: readonly string[], samples: number): string[] {
  return tasks.flatMap((task) => Array.from({ length: samples }, (_, k) => `${batch}/${task}/${k}`));
}
