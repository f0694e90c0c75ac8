/**
 * The environment `swe-mini`: repair a broken Python package, graded by hidden tests. It depends only on the task id.
 */

import type { SandboxSpec } from '../../sandboxes/sandbox.ts';
import { type Environment, MAIN, type Task } from '../environment.ts';
import { collectDiff } from './collect.ts';
import { demonstrate } from './demonstrations.ts';
import { gradeDiff } from './grade.ts';
import { makeProblem, type Problem, LIMITS, WORKDIR } from './problem.ts';
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

/** Indices have nine digits at most. */
const SIZE = 1_000_000_000;

function machineOf(problem: Problem): Omit<SandboxSpec, 'id' | 'ttlSeconds' | 'network'> {
  const tree = [...workingTree(problem)].map(([path, content]) => ({ path, content }));
  return { workdir: WORKDIR, files: [...tree, ...makeRepository(problem).files], env: ENV, limits: LIMITS };
}

/** Makes the value when it is first needed: a repository's files take milliseconds, and sampling needs none of them. */
function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

function taskOf(problem: Problem): Task {
  const machine = once(() => machineOf(problem));
  return {
    family: problem.family,
    messages: [{ role: 'user', content: problem.issue }],
    tools: TOOLS,
    get sandboxes() {
      return { [MAIN]: machine() };
    },

    async collect(ctx) {
      const { provider, execution } = ctx;
      const base = makeRepository(problem).head;
      return collectDiff({ sandbox: await ctx.sandbox(), spec: machine(), base, provider, execution });
    },

    grade: ({ provider, id }, { artifact }) => gradeDiff(problem, artifact, provider, id),

    oracle: async () => await Promise.resolve(demonstrate(problem.taskId, 'clean').messages),
  };
}

export const sweMini: Environment = {
  name: 'swe-mini',

  async open() {
    return await Promise.resolve({
      digest: 'swe-mini 1',
      splits: { train: SIZE, 'held-out': SIZE },
      load: async (split: string, index: number) =>
        await Promise.resolve(taskOf(makeProblem(`swe-mini-${split}-${index}`))),
    });
  },
};
