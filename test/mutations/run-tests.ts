/** Runs single tests of a copy, and says of each how it ended. A run that never got as far as a test has no results. */

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Killer } from './mutation.ts';
import type { ScratchCopy } from './scratch-copy.ts';

/** Longer than any test file of the list takes on a slow machine; milliseconds. */
const LONGEST_MS = 9 * 60_000;
/** Most mutated tests wait for what never comes: for a shorter time than beside all other tests. */
const LIMITS = ['--testTimeout=180000', '--hookTimeout=120000', '--expect.poll.timeout=60000'];

export interface TestResult {
  readonly file: string;
  readonly fullName: string;
  readonly status: string;
  readonly failures: readonly string[];
}

interface Report {
  readonly testResults: ReadonlyArray<{
    readonly name: string;
    readonly assertionResults: ReadonlyArray<{
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }>;
  }>;
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

function ended(command: readonly string[], { root, env }: ScratchCopy): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, command, { cwd: root, env, stdio: 'ignore', detached: true });
    const late = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), LONGEST_MS);
    child.once('exit', () => {
      clearTimeout(late);
      resolve();
    });
  });
}

/** Of the tests named by `killers`, those that ran. */
export async function runTests(killers: readonly Killer[], copy: ScratchCopy): Promise<TestResult[]> {
  const output = join(copy.root, 'mutation-report.json');
  rmSync(output, { force: true });
  const names = [...new Set(killers.map(({ test }) => escaped(test)))].join('|');
  const testFiles = [...new Set(killers.map(({ file }) => file))];
  const vitest = join('node_modules', 'vitest', 'vitest.mjs');
  await ended(
    [
      vitest,
      'run',
      ...testFiles,
      '-t',
      names,
      '--reporter=json',
      `--outputFile.json=${output}`,
      '--maxWorkers=1',
      ...LIMITS,
    ],
    copy,
  );
  copy.endLeftovers();
  if (!existsSync(output)) return [];
  const { testResults } = JSON.parse(readFileSync(output, 'utf8')) as Report;
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'passed' || status === 'failed')
      .map(({ fullName, status, failureMessages = [] }) => ({
        file: relative(copy.root, name),
        fullName,
        status,
        failures: failureMessages,
      })),
  );
}
