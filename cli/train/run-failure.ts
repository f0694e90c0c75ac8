/** How a run's end reads to its user: a summary that is not `completed`, or a workflow that never came to have one. */

import type { RunSummary } from '../../reports/run-summary.ts';
import { JobFailed, RunRefused, exitCodeOf } from '../../client/errors.ts';

const isRefusal = (error: Error): boolean => [error.name, 'type' in error ? error.type : ''].includes('UserInputError');

/** What names field, value and remedy; else the innermost cause: Temporal's own failures say only that something failed. */
function rootOf(error: unknown): unknown {
  let current = error;
  while (current instanceof Error && current.cause instanceof Error && !isRefusal(current)) current = current.cause;
  return current;
}

/** `error` is that of the workflow's result. */
export function failureOf(run: string, error: unknown, kind: 'run' | 'eval' = 'run'): JobFailed | RunRefused {
  const root = rootOf(error);
  const why = root instanceof Error ? root.message : String(root);
  if (exitCodeOf(error) === 2) return new RunRefused(`${kind} ${run} was refused: ${why}`, { cause: error });
  return new JobFailed(`${kind} ${run} failed before it began: ${why}`, undefined, { cause: error });
}

/** `summary` is that of a run which no longer goes on. Errors: `JobFailed`, with the summary, unless it completed. */
export function requireCompleted(summary: RunSummary): void {
  const { runId, status, message } = summary;
  if (status === 'completed') return;
  if (status === 'running') throw new JobFailed(`run ${runId} was stopped before it could say how it ended`, summary);
  throw new JobFailed(
    `run ${runId} ${status}${message ? `: ${message}` : ''}; npx longhaul train CONFIG --again resumes it from its records`,
    summary,
  );
}
