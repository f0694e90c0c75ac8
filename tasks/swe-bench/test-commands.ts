/** How the tests of a repository in Python are run, if neither the record nor an option says it: as by SWE-bench. */

import { quoteForShell } from '../../agents/tools/search.ts';
import { type Instance, testFilesOf } from './instance.ts';

const DJANGO = './tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1';
const COMMANDS: Readonly<Record<string, string>> = {
  'astropy/astropy': 'pytest -rA -vv -o console_output_style=classic --tb=no',
  'django/django': DJANGO,
  'matplotlib/matplotlib': 'pytest -rA',
  'mwaskom/seaborn': 'pytest --no-header -rA',
  'scikit-learn/scikit-learn': 'pytest -rA',
  'sphinx-doc/sphinx': 'tox --current-env -epy39 -v --',
  'sympy/sympy': "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
  // SWE-Gym
  'bokeh/bokeh': 'pytest -rA -n0',
  'conan-io/conan': 'pytest -n0 -rA',
  'dask/dask': 'pytest -n0 -rA --color=no',
  'facebookresearch/hydra': 'pytest -rA --tb=long',
  'getmoto/moto': 'pytest -n0 -rA',
  'iterative/dvc': 'pytest -rA',
  'modin-project/modin': 'pytest -n0 -rA',
  'pandas-dev/pandas': 'pytest -rA --tb=long',
  'pydantic/pydantic': 'pytest -rA --tb=short -vv -o console_output_style=classic --no-header',
};
/** The other repositories of SWE-bench: flask, requests, xarray, pylint, astroid, pytest, marshmallow, … */
const PYTEST = 'pytest -rA';
const SMITH = 'pytest --disable-warnings --color=no --tb=no --verbose';

/** `tests/a/test_b.py` is `a.test_b` for Django's runner. */
const djangoLabel = (path: string): string =>
  path
    .replace(/\.py$/u, '')
    .replace(/^tests\//u, '')
    .replaceAll('/', '.');

/** mypy's tests are cases in data files. */
function mypyCases(testPatch: string): string[] {
  const names = [...testPatch.matchAll(/^[ +]\[case (\w+)\S*\]/gmu)].flatMap(([, name]) => name ?? []);
  return [...new Set(names)];
}

/** Extensions whose sources must be compiled again if a patch touches them. */
const COMPILED = /\.(?:pyx|pxd|pxi|c|cc|cpp|h|hpp|tp)$/u;
const BUILT: ReadonlySet<string> = new Set([
  'scikit-learn/scikit-learn',
  'astropy/astropy',
  'matplotlib/matplotlib',
  'pandas-dev/pandas',
]);

/** Builds extensions in place, if the patch touches their sources; empty if there is nothing to build. */
export const buildCommand = ({ repo }: Instance, touched: readonly string[]): string =>
  BUILT.has(repo) && touched.some((path) => COMPILED.test(path)) ? 'python setup.py build_ext --inplace' : '';

/**
 * The command that runs the instance's tests, in the workspace. `given`: an option's, to which the files are added
 * unless it has `{files}`.
 */
export function testCommandOf(instance: Instance, given: string | undefined): string {
  const { repo, source, testPatch } = instance;
  const command = given ?? instance.testCommand ?? (source === 'swe-smith' ? SMITH : (COMMANDS[repo] ?? PYTEST));
  if (repo === 'python/mypy' && given === undefined && mypyCases(testPatch).length > 0)
    return `pytest -n0 -rA -k ${quoteForShell(mypyCases(testPatch).join(' or '))}`;
  const files = testFilesOf(instance).map((path) => quoteForShell(repo === 'django/django' ? djangoLabel(path) : path));
  const listed = files.join(' ');
  if (command.includes('{files}')) return command.replaceAll('{files}', () => listed);
  return listed === '' ? command : `${command} ${listed}`;
}

const MARK = /^\s*(?:: |echo )['"]?>>>>> (Start|End) Test Output['"]?\s*$/u;

/** A script of SWE-bench 5 in two: what comes before its tests, and the tests. `undefined`: it has no marks. */
export function splitScript(script: string): { readonly prepare: string; readonly test: string } | undefined {
  const lines = script.split('\n');
  const start = lines.findIndex((line) => MARK.exec(line)?.[1] === 'Start');
  const end = lines.findIndex((line, i) => i > start && MARK.exec(line)?.[1] === 'End');
  if (start < 0 || end < 0) return undefined;
  return { prepare: lines.slice(0, start).join('\n'), test: lines.slice(start + 1, end).join('\n') };
}
