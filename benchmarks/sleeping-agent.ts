/** Activities of a bench's agent that do nothing: what its rollouts cost is in other stages. */

import type { AgentRunActivities } from '../protocol/activities.ts';

export const idleAgent: AgentRunActivities = {
  agentRun: async () => ({ line: '' }),
  collect: async () => ({ artifact: 'sha256:00', bytes: 0 }),
  releaseSandbox: async () => undefined,
  holdSandbox: async () => undefined,
};
