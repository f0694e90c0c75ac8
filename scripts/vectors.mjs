/**
 * `npm run test:vectors`: runs the tests of every file of a vectors folder (`$LONGHAUL_VECTORS`, default test/vectors).
 * A file, or a section of one, that no test reads yet is reported and counted as skipped.
 */

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readJson } from './setup/files.mjs';
import { packageRoot } from './setup/paths.mjs';
import { exitCodeOf, lastLine, tallyVitest } from './test/tally.mjs';

const SUBJECTS = {
  'algorithms.json': ['test/trainer/algorithms/'],
  'dispatch.json': ['test/benchmarks/dispatch/simulate.test.ts'],
  'dispatch-ties.json': ['test/benchmarks/dispatch/reference.test.ts'],
  'gym.json': ['test/tasks/vectors/'],
  'tool-arguments.json': ['test/trainer/tokenizer/tool-arguments.test.ts'],
  'toolparse.json': ['test/agents/codecs/skyrl-vectors.test.ts'],
  'transitions.json': [
    'test/trainer/data/merge-transitions.test.ts',
    'test/trainer/data/merge-steps.test.ts',
    'test/reports/export/skyrl-output.test.ts',
    'test/agents/skyrl/encode-messages.test.ts',
    'test/activities/skyrl-agent-runs.test.ts',
  ],
};

/** Sections of a file that its tests read; `meta` has the file's origin. Absent: they read all sections. */
const SECTIONS = {
  'gym.json': [
    'meta',
    'aime',
    'aime_strict_box',
    'default_aggregate_metrics',
    'em_normalize',
    'gsm8k_env',
    'gsm8k_multi_turn',
    'gsm8k_multi_turn_aggregate',
    'gsm8k_reward',
    'lcb',
    'search',
    'searchcode',
    'text2sql',
    'text2sql_constructor_errors',
  ],
  'transitions.json': ['meta', 'merge', 'stepwise_merge', 'post_process', 'message_encoding', 'agent_runs'],
};

/** `FILE SECTION` for each section that no test reads yet. */
function unreadSections(folder, name) {
  const read = SECTIONS[name];
  return read === undefined
    ? []
    : Object.keys(readJson(join(folder, name)))
        .filter((key) => !read.includes(key))
        .map((key) => `${name} ${key}`);
}

/** The tests of all models of the folder, whatever their names are. */
const MODELS = ['test/trainer/vectors'];

const testsOf = (name) => (name.startsWith('models/') ? MODELS : SUBJECTS[name]);

/** Names of the entries of a vectors folder. Each model is a folder. */
function entries(folder) {
  const top = readdirSync(folder).filter((name) => name.endsWith('.json'));
  const models = existsSync(join(folder, 'models')) ? readdirSync(join(folder, 'models')) : [];
  return [...top, ...models.map((name) => `models/${name}`)].sort((a, b) => (a < b ? -1 : 1));
}

const folder = resolve(process.env.LONGHAUL_VECTORS ?? join(packageRoot, 'test', 'vectors'));
if (!existsSync(folder)) {
  process.stderr.write(`LONGHAUL_VECTORS: ${JSON.stringify(folder)} cannot be used; give a folder of vectors\n`);
  process.exit(2);
}
const found = entries(folder);
const unknown = [
  ...found.filter((name) => testsOf(name) === undefined),
  ...found.flatMap((name) => unreadSections(folder, name)),
];
const files = [...new Set(found.flatMap((name) => testsOf(name) ?? []))];
const report = mkdtempSync(join(tmpdir(), 'longhaul-vectors-'));
try {
  const output = join(report, 'vitest.json');
  const args = ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${output}`, ...files];
  const child = spawn(process.execPath, [join(packageRoot, 'node_modules', '.bin', 'vitest'), ...args], {
    cwd: packageRoot,
    env: { ...process.env, LONGHAUL_VECTORS: folder },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const code = await new Promise((done) => child.on('exit', (exit) => done(exit ?? 1)));
  for (const name of unknown) process.stdout.write(`skipped: ${name} (no test reads it yet)\n`);
  const tally = tallyVitest(readJson(output), code);
  const total = { ...tally, skipped: tally.skipped + unknown.length };
  // Skipped files do not fail this command, not even in CI: they are reported by name.
  process.exitCode = exitCodeOf({ ...total, skipped: 0 }, process.env);
  process.stdout.write(`${lastLine(total)}\n`);
} finally {
  rmSync(report, { recursive: true, force: true });
}
