/** A sandbox that nobody uses for a while is renewed before its time to live is over, or found lost. */

import { isCancellation } from '@temporalio/workflow';
import { onHost } from '../activity-stubs.ts';
import { classify } from '../failures/classify-failure.ts';
import type { Context } from './rollout-context.ts';
import type { SandboxRef } from '../../protocol/stages.ts';

/** Of sandboxes whose host did not say how long they live. */
const DEFAULT_TTL_SECONDS = 1800;

/** Milliseconds after which a sandbox that nobody uses is renewed. */
export function renewalOf({ ttlSeconds = DEFAULT_TTL_SECONDS }: SandboxRef): number {
  return Math.max(1000, (ttlSeconds * 1000) / 3);
}

/** Renews the sandbox of a rollout that waits; whether it is lost. */
export async function isLost(
  sandbox: SandboxRef,
  attempt: number,
  { input, rollout }: Pick<Context, 'input' | 'rollout'>,
): Promise<boolean> {
  try {
    await onHost(sandbox.host, input.agent.toolTimeoutSeconds).holdSandbox({
      run: input.run,
      rollout,
      attempt,
      task: input.task,
      ...sandbox,
    });
    return false;
  } catch (error) {
    if (isCancellation(error)) throw error;
    // Another failure says nothing of the sandbox: it is tried again, and in the end by the next tool call.
    return classify(error).failure === 'sandbox-lost';
  }
}
