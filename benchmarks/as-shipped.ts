/** A bench that runs workflows does so without call stacks, as the stack's orchestrator does. */

import { setImmediate } from 'node:timers/promises';
import { workflowThreadOptions } from '../stack/stack-plan.ts';

/**
 * Goes on in the same process with Node told what the stack tells it where workflows run: a thread takes its options from
 * the start of its process. The heap's options are not among them. To be called before any work; what has begun is lost.
 * Errors: `signal`'s reason.
 */
export async function goOnAsShipped(signal: AbortSignal): Promise<void> {
  const options = workflowThreadOptions(process.env);
  if (options.every((option) => process.execArgv.includes(option)) || typeof process.execve !== 'function') return;
  // An interrupt that came while modules were loaded is heard now, or never.
  await setImmediate();
  signal.throwIfAborted();
  process.execve(
    process.execPath,
    [process.execPath, ...options, ...process.execArgv, ...process.argv.slice(1)],
    process.env,
  );
}
