/** Checks the generator's references, bugs, fixes and mistakes against the real Python. */

import { spawnSync } from 'node:child_process';

import { describe, expect, it } from 'vitest';

import { type Edit, FAMILIES } from '../../../tasks/swe-mini/draft.ts';
import { type Case, makeProblem, type Problem } from '../../../tasks/swe-mini/problem.ts';
import { pythonRepr } from '../../../tasks/swe-mini/repository.ts';

const PROGRAM = `
import json, sys
for sources, calls in json.load(sys.stdin):
    spaces = {}
    for name, source in sources.items():
        spaces[name] = {}
        exec(source, spaces[name])
    answers = []
    for module, call in calls:
        try: answers.append(repr(eval(call, spaces[module])))
        except Exception as error: answers.append('!' + type(error).__name__)
    print(json.dumps(answers))
`;

interface Asked {
  readonly problem: Problem;
  readonly cases: readonly Case[];
  readonly edit?: Edit;
}

/** For each problem: which of its cases have the expected result. */
function ask(all: readonly Asked[]): boolean[][] {
  const input = all.map(({ problem, cases, edit }) => [
    Object.fromEntries(
      problem.modules.map((module) => [
        `${problem.package}.${module.name}`,
        edit && module.path === problem.path ? module.source.replace(edit.old, () => edit.new) : module.source,
      ]),
    ),
    cases.map((item) => [item.module, `${item.function}(${item.arguments.map(pythonRepr).join(', ')})`]),
  ]);
  const { stdout, stderr, status } = spawnSync('python3', ['-I', '-S', '-c', PROGRAM], {
    input: JSON.stringify(input),
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`python3 is needed by this test: ${String(stderr)}`);
  const lines = String(stdout).trim().split('\n');
  return all.map(({ cases }, i) => {
    const answers = JSON.parse(lines[i] ?? '[]') as string[];
    return cases.map(({ expected }, n) => answers[n] === pythonRepr(expected));
  });
}

const problems = Array.from({ length: 240 }, (_, i) => makeProblem(`swe-mini-${i % 2 ? 'train' : 'held-out'}-${i}`));
const isTarget = (problem: Problem, item: Case): boolean => item.function === problem.target;

describe('in real Python', () => {
  it.each(['visible', 'hidden'] as const)('the bug fails %s cases of its function and of no other', (kind) => {
    const answers = ask(problems.map((problem) => ({ problem, cases: problem[kind] })));
    problems.forEach((problem, i) => {
      const wrong = problem[kind].filter((_, n) => answers[i]?.[n] === false);
      expect(wrong.length, `${problem.taskId} ${problem.family}`).toBeGreaterThan(0);
      expect(
        wrong.every((item) => isTarget(problem, item)),
        problem.taskId,
      ).toBe(true);
    });
  });

  it.each(['visible', 'hidden'] as const)('the fix passes all %s cases', (kind) => {
    const answers = ask(problems.map((problem) => ({ problem, cases: problem[kind], edit: problem.fix })));
    expect(problems.filter((_, i) => answers[i]?.includes(false)).map(({ taskId }) => taskId)).toEqual([]);
  });

  it('the plausible mistake of each family fails hidden cases', () => {
    const answers = ask(problems.map((problem) => ({ problem, cases: problem.hidden, edit: problem.mistake })));
    const passed = problems
      .filter((_, i) => !answers[i]?.includes(false))
      .map(({ taskId, family }) => `${taskId} ${family}`);
    expect(passed).toEqual([]);
    expect(new Set(problems.map(({ family }) => family))).toEqual(new Set(FAMILIES));
  });
});
