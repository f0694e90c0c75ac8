/** Renews a sandbox that nobody uses for a while before its time to live ends, or finds that it is lost. */

import { isCancellation } from '@temporalio/workflow';
import { onHost } from '../activity-stubs.ts';
import { classify } from '../failures/classify-failure.ts';
import { attemptOf, type Context, toolSecondsOf } from './rollout-context.ts';
import type { SandboxRef } from '../../protocol/stages.ts';

/** For sandboxes whose host did not report how long they live. */
const DEFAULT_TTL_SECONDS = 1800;

/** Milliseconds after which a sandbox that nobody uses is renewed. */
export function renewalOf({ ttlSeconds = DEFAULT_TTL_SECONDS }: SandboxRef): number {
  return Math.max(1000, (ttlSeconds * 1000) / 3);
}

/** Renews the sandbox of a rollout that waits. Returns true if the sandbox is lost. */
export async function isLost(
  sandbox: SandboxRef,
  attempt: number,
  context: Pick<Context, 'input' | 'rollout' | 'taskLimits'>,
): Promise<boolean> {
  try {
    await onHost(sandbox.host, toolSecondsOf(context)).holdSandbox({ ...attemptOf({ attempt }, context), ...sandbox });
    return false;
  } catch (error) {
    if (isCancellation(error)) throw error;
    // Another failure says nothing about the sandbox: the next renewal or tool call will show whether it is lost.
    return classify(error).failure === 'sandbox-lost';
  }
}
