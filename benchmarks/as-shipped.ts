/** Runs the workflows of benches without call stacks, like the stack's orchestrator. */

import { setImmediate } from 'node:timers/promises';
import { workflowThreadOptions } from '../stack/stack-plan.ts';

/**
 * Replaces this process by the same program with the Node options that the stack sets where workflows run: threads take
 * their options from the start of the process. The options of the heap are not among them. Call it before any work,
 * which would be lost. Errors: the reason of `signal`.
 */
export async function goOnAsShipped(signal: AbortSignal): Promise<void> {
  const options = workflowThreadOptions(process.env);
  if (options.every((option) => process.execArgv.includes(option)) || typeof process.execve !== 'function') return;
  // Lets an interrupt that came while modules were loading fire now: after `execve` it would be lost.
  await setImmediate();
  signal.throwIfAborted();
  process.execve(
    process.execPath,
    [process.execPath, ...options, ...process.execArgv, ...process.argv.slice(1)],
    process.env,
  );
}
