/** Errors for runs that did not complete: with a summary, or without one if the workflow failed before it had one. */

import type { RunSummary } from '../../reports/run-summary.ts';
import { JobFailed, RunRefused, exitCodeOf } from '../../client/errors.ts';

const isRefusal = (error: Error): boolean => [error.name, 'type' in error ? error.type : ''].includes('UserInputError');

/** The error that names field, value and remedy; else the innermost cause, since Temporal's failures give no reason. */
function rootOf(error: unknown): unknown {
  let current = error;
  while (current instanceof Error && current.cause instanceof Error && !isRefusal(current)) current = current.cause;
  return current;
}

/** `error`: that of the workflow's result. */
export function failureOf(run: string, error: unknown, kind: 'run' | 'eval' = 'run'): JobFailed | RunRefused {
  const root = rootOf(error);
  const why = root instanceof Error ? root.message : String(root);
  if (exitCodeOf(error) === 2) return new RunRefused(`${kind} ${run} was refused: ${why}`, { cause: error });
  return new JobFailed(`${kind} ${run} failed before it started: ${why}`, undefined, { cause: error });
}

/** `summary`: that of a run that has ended. Errors: `JobFailed`, with the summary, unless it completed. */
export function requireCompleted(summary: RunSummary): void {
  const { runId, status, message } = summary;
  if (status === 'completed') return;
  if (status === 'running') throw new JobFailed(`run ${runId} was stopped before it recorded how it ended`, summary);
  throw new JobFailed(
    `run ${runId} ${status}${message ? `: ${message}` : ''}; resume it from its records with: ` +
      'npx longhaul train CONFIG --again',
    summary,
  );
}
