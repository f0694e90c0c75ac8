/** How rollouts ended, in SkyRL-Agent's words. Every end has one. */

import type { FailureClass, FinishReason } from '../../../protocol/finish-reason.ts';
import type { OutcomeRecord } from '../../../protocol/records.ts';

const FINISHES: Readonly<Record<FinishReason, string>> = {
  'finish-tool': 'FINISH_TOOL',
  answer: 'FINISH',
  done: 'FINISH',
  'max-turns': 'max_iterations_reached',
  context: 'CONTEXT_WINDOW_EXCEEDED',
  'response-cut': 'CONTEXT_WINDOW_EXCEEDED',
  'token-budget': 'CONTEXT_WINDOW_EXCEEDED',
  refused: 'BAD_LLM_RESPONSE',
  // SkyRL's form for an agent that failed by itself, which is trained on.
  'program-failed': 'error: program-failed',
  'program-timeout': 'cmd_timeout',
  deadline: 'cmd_timeout',
};

/** Failures that are no `error_runtime`. */
const FAILED: Partial<Record<FailureClass, string>> = {
  'grader-failed': 'error_evaluation',
  'judge-unavailable': 'error_evaluation',
  'prompt-too-long': 'CONTEXT_WINDOW_EXCEEDED',
  timeout: 'cmd_timeout',
  deadline: 'cmd_timeout',
};

export function skyrlReasonOf({
  status,
  finish,
  failure,
}: Pick<OutcomeRecord, 'status' | 'finish' | 'failure'>): string {
  if (status === 'failed') return (failure && FAILED[failure]) ?? 'error_runtime';
  return finish === null ? 'error_runtime' : FINISHES[finish];
}
