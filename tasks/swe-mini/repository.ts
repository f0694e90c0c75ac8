/**
 * A problem's repository: package, tests, a runner that prints no timings, and a git history. The bug is as old as its
 * module, so the history does not reveal the fix.
 */

import type { Value } from './draft.ts';
import { type Commit, type GitRepository, makeGitRepository, type Tree } from './git-objects.ts';
import { parseTaskId, type Case, type Module, type Problem } from './problem.ts';

/** Prints a line per failed test and the number of passed ones. The output is equal in every run. */
const RUNNER = `"""Runs the tests in tests/ and prints what fails; prints no timings."""
import sys
import unittest

suite = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
result = unittest.TestResult()
suite.run(result)
broken = result.failures + result.errors
for test, trace in sorted(broken, key=lambda item: item[0].id()):
    print("FAIL", test.id().split(".")[-1] + ":", trace.strip().splitlines()[-1])
print(result.testsRun - len(broken), "of", result.testsRun, "tests pass")
sys.exit(1 if broken else 0)
`;

export const CHECK_COMMAND = 'python3 check.py';

/** The runner's output if all tests pass. */
export function allPass(problem: Problem): string {
  const tests = problem.modules.reduce((sum, { functions }) => sum + functions.length, 0);
  return `${tests} of ${tests} tests pass`;
}

function assertion({ function: name, arguments: values, expected }: Case): string {
  return `        self.assertEqual(${name}(${values.map(pythonRepr).join(', ')}), ${pythonRepr(expected)})`;
}

function testSource(problem: Problem, module: Module): string {
  const imported = module.functions.map((f) => f.name);
  const dotted = `${problem.package}.${module.name}`;
  const methods = module.functions.map((f) => {
    const cases = problem.visible.filter((item) => item.module === dotted && item.function === f.name);
    return [`    def test_${f.name}(self):`, ...cases.map(assertion), ''].join('\n');
  });
  return [
    'import unittest',
    '',
    `from ${dotted} import ${imported.join(', ')}`,
    '',
    '',
    `class ${module.name[0]?.toUpperCase()}${module.name.slice(1)}Test(unittest.TestCase):`,
    methods.join('\n'),
  ].join('\n');
}

/** The working tree: path -> content. */
export function workingTree(problem: Problem): Tree {
  return new Map([
    ['.gitignore', '__pycache__/\n'],
    ['README.md', `# ${problem.package}\n\nTests: \`${CHECK_COMMAND}\`\n`],
    ['check.py', RUNNER],
    [`${problem.package}/__init__.py`, ''],
    ...problem.modules.map(({ path, source }) => [path, source] as const),
    ['tests/__init__.py', ''],
    ...problem.modules.map((module) => [`tests/test_${module.name}.py`, testSource(problem, module)] as const),
  ]);
}

const DAY = 86_400;
/** 1 January 2024, 09:00 UTC. */
const EPOCH = 1_704_099_600;

export function makeRepository(problem: Problem): GitRepository {
  const tree = workingTree(problem);
  const start = EPOCH + (parseTaskId(problem.taskId).index % 300) * DAY;
  const commit = (message: string, day: number, keep: (path: string) => boolean): Commit => ({
    message,
    tree: new Map([...tree].filter(([path]) => keep(path))),
    time: start + day * DAY,
  });
  const [first, second] = problem.modules;
  return makeGitRepository([
    commit(
      `Start ${problem.package}`,
      0,
      (path) => !path.startsWith('tests/') && path !== first?.path && path !== second?.path,
    ),
    commit(`Add ${first?.name}`, 1, (path) => !path.startsWith('tests/') && path !== second?.path),
    commit(`Add ${second?.name}`, 2, (path) => !path.startsWith('tests/')),
    commit('Add tests', 3, () => true),
  ]);
}

/** The Python literal of a value, equal to what `repr` prints. */
export function pythonRepr(value: Value): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return String(value);
  if (Array.isArray(value)) return `[${value.join(', ')}]`;
  return `{${Object.entries(value)
    .map(([key, item]) => `'${key}': ${item}`)
    .join(', ')}}`;
}
