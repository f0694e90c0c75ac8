/**
 * The time that the calls of one message may take together, so that they end within their activity's limit. Calls
 * beyond it get an answer: if the activity timed out instead, the rollout would be masked and lose its reward.
 */

import { type Observation, refusal } from '../../agents/tools/tool.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';

/** Calls of one message that are run: each costs some time of its own, however short its command is. */
export const MAX_CALLS = 32;
/**
 * In limits of one call. The last call to start may take one more: `agentRun` has four, and ten minutes for the rest.
 */
const LIMITS_PER_MESSAGE = 3;
/** Milliseconds that a call has at least if it starts before the deadline. */
const LEAST_MS = 1000;

export class MessageBudget {
  readonly #callMs: number;
  readonly #seconds: number;
  /** True if the deadline comes before the message's time is over. */
  readonly #endsSoon: boolean;
  #spentMs = 0;

  /** `withinMs`: milliseconds until the rollout's deadline. */
  constructor(toolTimeoutSeconds: number, withinMs = Number.POSITIVE_INFINITY) {
    this.#callMs = toolTimeoutSeconds * 1000;
    this.#seconds = Math.min(LIMITS_PER_MESSAGE * toolTimeoutSeconds, withinMs / 1000);
    this.#endsSoon = this.#seconds < LIMITS_PER_MESSAGE * toolTimeoutSeconds;
  }

  /** Milliseconds that the next call may take. */
  get timeoutMs(): number {
    return this.#endsSoon
      ? Math.max(LEAST_MS, Math.min(this.#callMs, this.#seconds * 1000 - this.#spentMs))
      : this.#callMs;
  }

  spend(ms: number): void {
    this.#spentMs += ms;
  }

  /** The answer to a call that may not start any more; `undefined` if it may start. */
  refused(index: number): Observation | undefined {
    if (index >= MAX_CALLS)
      return refusal(`not run: a message may make ${MAX_CALLS} calls. Make the others in the next one.`);
    if (this.#spentMs < this.#seconds * 1000) return undefined;
    return refusal(
      `not run: the calls of this message have taken their ${Math.ceil(this.#seconds)} seconds. ` +
        'Make it in the next one.',
    );
  }
}

/** A sandbox that reports how long its commands ran, from its own journal: a repeated call reports the same time. */
export function timed(sandbox: Sandbox, spend: (ms: number) => void): Sandbox {
  return {
    id: sandbox.id,
    ...(sandbox.door && { door: sandbox.door }),
    exec: async (call) => {
      const result = await sandbox.exec(call);
      spend(result.durationMs);
      return result;
    },
    write: (call) => sandbox.write(call),
    written: (callId) => sandbox.written(callId),
    read: (path, maxBytes) => sandbox.read(path, maxBytes),
    ...(sandbox.state && { state: sandbox.state.bind(sandbox) }),
    renew: (ttlSeconds) => sandbox.renew(ttlSeconds),
    close: () => sandbox.close(),
  };
}
