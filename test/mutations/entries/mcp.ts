/** Servers of tools over HTTP: outages, restarts, and workers that die during a call. */

import type { Mutation } from '../mutation.ts';

const FAULT = 'an MCP server over HTTP is down, has been started again, or its worker is killed during a call';
const ROLLOUT_TEST = 'test/activities/agent-run/mcp-over-http.test.ts';
const SERVER_TEST = 'test/agents/mcp/http.test.ts';

export const mcp: readonly Mutation[] = [
  {
    name: 'a call that an MCP server did not take counts as begun',
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'if (outside && hadNoEffect(error)) await store.begin(`${execution}/unsent`);',
    after: '',
    tests: [{ file: ROLLOUT_TEST, test: 'a server that is down before a call with effects reaches it' }],
  },
  {
    name: 'a call that an MCP server may have taken does not count as begun',
    fault: FAULT,
    file: 'activities/agent-run/tool-calls.ts',
    before: 'if (outside && hadNoEffect(error)) await',
    after: 'if (outside) await',
    tests: [{ file: ROLLOUT_TEST, test: 'one that ended during a call with effects is not asked again' }],
  },
  {
    name: 'a session of calls with effects is begun anew',
    fault: FAULT,
    file: 'agents/mcp/http-client.ts',
    before: "if (spec.effect !== 'none')",
    after: 'if (spec.effect === undefined)',
    tests: [
      { file: SERVER_TEST, test: 'of calls with effects is not begun anew' },
      { file: ROLLOUT_TEST, test: 'one that has forgotten the session of calls with effects ends the attempt' },
    ],
  },
  {
    name: 'a session that was begun anew is not recorded',
    fault: FAULT,
    file: 'store/mcp-sessions.ts',
    before: '...(await store.putOnce(keys.mcpSession(attempt, server, next), session)), number: next',
    after: '...session, number: next',
    tests: [{ file: ROLLOUT_TEST, test: 'is asked again when it runs, in a session of its own' }],
  },
  {
    name: 'a silent MCP server is taken for a slow tool',
    fault: FAULT,
    file: 'agents/mcp/http-client.ts',
    before: 'throw error instanceof ServiceUnavailable ? cause : error;',
    after: "return { kind: 'result' } as const;",
    tests: [{ file: SERVER_TEST, test: 'a server that is silent is not' }],
  },
  {
    name: 'a worker lists the tools of an MCP server again',
    fault: FAULT,
    file: 'activities/init/restore.ts',
    before: 'if ((await store.get(keys.mcp(attempt))) !== undefined) return;',
    after: '',
    tests: [{ file: ROLLOUT_TEST, test: 'its tools are listed once, and every worker offers them' }],
  },
];
