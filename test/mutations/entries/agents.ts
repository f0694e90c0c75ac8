/** Sub-agents and segments: what must survive a kill, and what must end. */

import type { Mutation } from '../mutation.ts';

const KILLED = 'a sandbox is killed while a sub-agent works in it';
const ENDLESS = 'an agent summarises without end';
const MIXED = 'agents of one rollout take turns';
const NESTED_TEST = 'test/workflows/rollout/nested-rollout.test.ts';
const AGENTS_TEST = 'test/activities/sub-agents.test.ts';
const LOOP_TEST = 'test/workflows/rollout/rollout-loop.test.ts';

export const agents: readonly Mutation[] = [
  {
    name: "a sub-agent's calls run again with its caller's tools",
    fault: KILLED,
    file: 'tasks/offered-tools.ts',
    before: 'const name = agentPath.at(-1);',
    after: 'const name = agentPath.at(agentPath.length);',
    tests: [{ file: NESTED_TEST, test: "continues in a sub-agent's turn after its sandbox was killed" }],
  },
  {
    name: 'a rollout ends with its sub-agent',
    fault: MIXED,
    file: 'workflows/rollout/rollout-loop.ts',
    before: 'return frames.length === 0 ? ended(state, finish)',
    after: 'return frames.length >= 0 ? ended(state, finish)',
    tests: [{ file: LOOP_TEST, test: 'lets a sub-agent work in the next turns' }],
  },
  {
    name: 'a turn joins the last sequence alone',
    fault: MIXED,
    file: 'trainer/data/merge-transitions.ts',
    before: 'const seen = merged.filter(({ tokens }) =>',
    after: 'const seen = merged.slice(-1).filter(({ tokens }) =>',
    tests: [{ file: AGENTS_TEST, test: 'is trained on as a sequence of its own; its caller stays one sequence' }],
  },
  {
    name: 'a summary opens a segment that is no smaller',
    fault: ENDLESS,
    file: 'activities/generate/agent-at-work.ts',
    before: 'if (sizeOf !== undefined) return sizeOf(next) < contextTokens;',
    after: 'if (sizeOf !== undefined) return true;',
    tests: [{ file: AGENTS_TEST, test: 'that makes the context no smaller ends it' }],
  },
  {
    name: 'an environment is not told who speaks',
    fault: MIXED,
    file: 'activities/agent-run/environment-step.ts',
    before: ', ...(agentPath && { agentPath }) };',
    after: ' };',
    tests: [{ file: AGENTS_TEST, test: 'speaks to the environment, which knows who speaks' }],
  },
];
