/** `npm test`: type check, lint and every test; the last line sums them up, and the exit code is 0 only if all passed. */

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readJson } from './setup/files.mjs';
import { packageRoot } from './setup/paths.mjs';
import { exitCodeOf, lastLine, sum, tallyCheck, tallyVitest } from './test/tally.mjs';

const bin = (name) => join(packageRoot, 'node_modules', '.bin', name);

/** Arguments go to vitest: a path there runs the tests below it, without the two checks of the whole. */
const filters = process.argv.slice(2);
const report = mkdtempSync(join(tmpdir(), 'longhaul-test-'));
try {
  const checks = filters.length > 0 ? [] : [
    await check('type check', process.execPath, [bin('tsc'), '--noEmit']),
    await check('lint', process.execPath, [bin('oxlint'), '--type-aware', '--deny-warnings']),
  ];
  const total = sum([...checks, await vitest()]);
  process.exitCode = exitCodeOf(total, process.env);
  if (total.skipped > 0 && process.exitCode !== 0) process.stdout.write('a skipped test is a failure where CI is set\n');
  process.stdout.write(`${lastLine(total)}\n`);
} finally {
  rmSync(report, { recursive: true, force: true });
}

async function check(name, command, args) {
  const exitCode = await timed(name, () => end(command, args));
  return tallyCheck(exitCode);
}

async function vitest() {
  const file = join(report, 'vitest.json');
  const exitCode = await timed('vitest', () => end(process.execPath, [
    bin('vitest'), 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...filters,
  ]));
  return tallyVitest(readJson(file), exitCode);
}

async function timed(name, work) {
  const start = performance.now();
  const result = await work();
  process.stdout.write(`${name}: ${result === 0 ? 'passed' : 'FAILED'} in ${((performance.now() - start) / 1000).toFixed(1)} s\n`);
  return result;
}

function end(command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: packageRoot, stdio: ['ignore', 'inherit', 'inherit'] });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => child.kill(signal));
    child.on('error', () => resolve(127));
    child.on('exit', (code) => resolve(code ?? 1));
  });
}
