/** A bench that runs workflows does so as the stack's orchestrator would. */

import { workflowThreadOptions } from '../../workers/stack/stack-plan.ts';

/**
 * Goes on in the same process with Node told what the stack tells its orchestrator: a thread takes its options from the
 * start of its process. To be called before any work; what has begun is lost.
 */
export function goOnAsShipped(): void {
  const options = workflowThreadOptions(process.env);
  if (options.every((option) => process.execArgv.includes(option)) || typeof process.execve !== 'function') return;
  process.execve(process.execPath, [process.execPath, ...options, ...process.execArgv, ...process.argv.slice(1)], process.env);
}
