/**
 * `npm test`: type check, lint, format and all tests. The last line has the totals, and the exit code is 0 only if
 * everything passed.
 */

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readJson } from './setup/files.mjs';
import { packageRoot } from './setup/paths.mjs';
import { passedAlone, patternOf, secondTriesOf, withSecondTries } from './test/second-try.mjs';
import { exitCodeOf, lastLine, sum, tallyCheck, tallyVitest } from './test/tally.mjs';

const bin = (name) => join(packageRoot, 'node_modules', '.bin', name);

/** Arguments are passed to vitest: a path runs the tests below it, without type check, lint and format. */
const filters = process.argv.slice(2);
const report = mkdtempSync(join(tmpdir(), 'longhaul-test-'));
/** The compile cache is of this run only: packages that tests install in new folders would fill a permanent one. */
const compiled = { NODE_COMPILE_CACHE: join(report, 'compiled') };
try {
  const checks =
    filters.length > 0
      ? []
      : [
          await check('type check', process.execPath, [bin('tsc'), '--noEmit']),
          await check('lint', process.execPath, [bin('oxlint'), '--type-aware', '--deny-warnings']),
          await check('format', process.execPath, [bin('oxfmt'), '--check', '.']),
        ];
  const total = sum([...checks, await vitest()]);
  process.exitCode = exitCodeOf(total, process.env);
  if (total.skipped > 0 && process.exitCode !== 0) process.stdout.write('a skipped test is a failure if CI is set\n');
  process.stdout.write(`${lastLine(total)}\n`);
} finally {
  rmSync(report, { recursive: true, force: true });
}

async function check(name, command, args) {
  const exitCode = await timed(name, () => end(command, args));
  return tallyCheck(exitCode);
}

async function vitest() {
  const { report: given, exitCode, errors } = await timed('vitest', () => runVitest('all', filters));
  return await secondTries(given, tallyVitest(given, exitCode, errors));
}

/** Runs each failed test once more, alone, and reports which of them passed then. */
async function secondTries(given, tally) {
  const passed = [];
  for (const [i, test] of secondTriesOf(given, packageRoot).entries()) {
    const again = await timed(`second try of ${test.file}`, () =>
      runVitest(`again-${i}`, [test.file, '--testNamePattern', patternOf(test.name)]),
    );
    if (again.errors === 0 && passedAlone(again.report, again.exitCode)) passed.push(test);
  }
  for (const { file, name } of passed) process.stdout.write(`passed at the second try: ${file}: ${name}\n`);
  return withSecondTries(tally, passed.length);
}

async function runVitest(name, args) {
  const [file, errorsFile] = [join(report, `${name}.json`), join(report, `${name}.errors`)];
  const reporters = [
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
    '--reporter=./scripts/test/errors-reporter.mjs',
  ];
  const exitCode = await end(process.execPath, [bin('vitest'), 'run', ...reporters, ...args], {
    LONGHAUL_TEST_ERRORS: errorsFile,
  });
  return { report: readJson(file), exitCode, errors: errorsIn(errorsFile) };
}

/** Without a count, the run was interrupted: that is one error. */
function errorsIn(file) {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return 1;
  }
}

async function timed(name, work) {
  const start = performance.now();
  const result = await work();
  const exitCode = typeof result === 'number' ? result : result.exitCode;
  process.stdout.write(
    `${name}: ${exitCode === 0 ? 'passed' : 'FAILED'} in ${((performance.now() - start) / 1000).toFixed(1)} s\n`,
  );
  return result;
}

function end(command, args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: packageRoot,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, ...compiled, ...env },
    });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => child.kill(signal));
    child.on('error', () => resolve(127));
    child.on('exit', (code) => resolve(code ?? 1));
  });
}
