/**
 * The sessions of an attempt at its MCP servers over HTTP: the latest one counts, and the first to record it decides.
 */

import type { McpSession } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import type { Attempt } from '../protocol/stages.ts';
import type { Store } from './store.ts';

export interface NumberedSession extends McpSession {
  /** From 0. */
  readonly number: number;
}

/** Those of one server: the caller that has the turn uses the latest. */
export interface McpSessions {
  readonly latest: () => Promise<NumberedSession>;
  /** Records what follows `after`. Returns the recorded one: another worker may have been first. */
  readonly follow: (after: NumberedSession, session: McpSession) => Promise<NumberedSession>;
}

export function mcpSessions(
  attempt: Pick<Attempt, 'rollout' | 'attempt'>,
  server: string,
  store: Pick<Store, 'putOnce' | 'list'>,
): McpSessions {
  return {
    async latest() {
      const all = await store.list<McpSession>(keys.mcpSessions(attempt, server));
      const last = all.at(-1);
      if (last === undefined) throw new Error(`${keys.mcpSession(attempt, server, 0)} is not recorded`);
      return { ...last.value, number: all.length - 1 };
    },
    async follow({ number }, session) {
      const next = number + 1;
      return { ...(await store.putOnce(keys.mcpSession(attempt, server, next), session)), number: next };
    },
  };
}
