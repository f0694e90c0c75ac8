/**
 * The environment `swe-mini`: repair a broken Python package, graded by hidden tests. It depends only on the task id.
 */

import type { SandboxSpec } from '../../sandboxes/sandbox.ts';
import type { Environment } from '../task.ts';
import { collectDiff } from './collect.ts';
import { gradeDiff } from './grade.ts';
import { makeProblem, parseTaskId, type Problem, LIMITS, WORKDIR } from './problem.ts';
import { makeRepository, workingTree } from './repository.ts';

const TOOLS = ['bash', 'str_replace_editor', 'search', 'finish'] as const;

/** Fixed, so that an agent's commits do not depend on the day. */
const ENV: Readonly<Record<string, string>> = {
  GIT_AUTHOR_NAME: 'agent',
  GIT_AUTHOR_EMAIL: 'agent@longhaul.invalid',
  GIT_AUTHOR_DATE: '2024-12-31T12:00:00Z',
  GIT_COMMITTER_NAME: 'agent',
  GIT_COMMITTER_EMAIL: 'agent@longhaul.invalid',
  GIT_COMMITTER_DATE: '2024-12-31T12:00:00Z',
};

/** Problems that are cached: each is needed several times per rollout. */
const KEPT = 256;
const kept = new Map<string, Problem>();

function problemOf(taskId: string): Problem {
  const known = kept.get(taskId);
  if (known !== undefined) return known;
  const problem = makeProblem(taskId);
  const [oldest] = kept.keys();
  if (kept.size >= KEPT && oldest !== undefined) kept.delete(oldest);
  kept.set(taskId, problem);
  return problem;
}

function machineOf(problem: Problem): Omit<SandboxSpec, 'id' | 'ttlSeconds'> {
  const tree = [...workingTree(problem)].map(([path, content]) => ({ path, content }));
  return { workdir: WORKDIR, files: [...tree, ...makeRepository(problem).files], env: ENV, limits: LIMITS };
}

export const sweMini: Environment = {
  name: 'swe-mini',

  taskId(split, index) {
    const taskId = `swe-mini-${split}-${index}`;
    parseTaskId(taskId);
    return taskId;
  },

  load(taskId) {
    const { family, issue } = problemOf(taskId);
    return { id: taskId, family, messages: [{ role: 'user', content: issue }], tools: TOOLS };
  },

  sandbox: (taskId, sandboxId) => ({ id: sandboxId, ...machineOf(problemOf(taskId)) }),

  async collect(taskId, sandbox, provider, execution = 1) {
    const problem = problemOf(taskId);
    return collectDiff({ sandbox, spec: machineOf(problem), base: makeRepository(problem).head, provider, execution });
  },

  async grade(taskId, artifact, provider, sandboxId) {
    return gradeDiff(problemOf(taskId), artifact, provider, sandboxId);
  },
};
