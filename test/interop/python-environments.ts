/**
 * Runs unchanged environments of the real SkyRL-Gym by the environment `python`, on the cases of gym.json, and
 * environments of the real `verifiers`. Both come from PyPI, into virtual environments in the cache.
 * `node test/interop/python-environments.ts [PYTHON [PYTHON [PYTHON]]]`: interpreters that have skyrl-gym, verifiers of
 * before 0.4, and its 0.4.
 */

import { deepStrictEqual, match, rejects } from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheDirectory } from '#setup/paths.mjs';
import { contextOver } from '../../activities/task-context.ts';
import type { StepResult, Task } from '../../tasks/environment.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { SandboxProvider } from '../../sandboxes/sandbox.ts';
import { readVectors } from '../support/vectors.ts';

const GYM = 'skyrl-gym==0.4.0';
const VERIFIERS = 'verifiers==0.1.14';
const TASKSETS = 'verifiers==0.4.0';
const SECTIONS = { gsm8k_env: 'gsm8k', gsm8k_multi_turn: 'gsm8k_multi_turn' } as const;

interface Case {
  readonly tag: string;
  readonly extras: Record<string, unknown>;
  readonly actions: readonly string[];
  readonly steps: ReadonlyArray<{
    readonly reward: number;
    readonly done: boolean;
    readonly observations?: ReadonlyArray<{ readonly role: string; readonly kind?: string; readonly content?: string }>;
  }>;
  readonly metrics?: Record<string, number>;
  readonly expected_error?: unknown;
}

function interpreterWith(requirement: string, given: string | undefined): string {
  if (given !== undefined) return given;
  const venv = join(cacheDirectory(), 'interop', requirement.replace('==', '-'));
  const python = join(venv, 'bin', 'python');
  if (!existsSync(python)) execFileSync('python3', ['-m', 'venv', venv], { stdio: 'inherit' });
  execFileSync(python, ['-m', 'pip', 'install', '-q', requirement], { stdio: 'inherit' });
  return python;
}

const provider = undefined as unknown as SandboxProvider;
const ask = () => Promise.reject(new Error('no judge'));
const contextOf = (id: string) =>
  contextOver({}, provider, {
    key: id,
    id,
    execution: 1,
    signal: new AbortController().signal,
    ask,
    deadline: Number.POSITIVE_INFINITY,
  });

const folder = mkdtempSync(join(tmpdir(), 'longhaul-interop-'));

async function openRows(rows: readonly unknown[], options: Record<string, unknown>) {
  writeFileSync(join(folder, 'rows.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
  const given = { data: { test: 'rows.jsonl' }, seconds: 300, ...options };
  return new TaskLoader().open({ environment: 'python', options: given, folder });
}

/** The results of an episode's steps. */
async function played(task: Task, owner: string, actions: readonly string[]): Promise<StepResult[]> {
  const results: StepResult[] = [];
  let { state } = (await task.start?.(contextOf(`${owner}/start`))) ?? { state: undefined };
  for (const [k, action] of actions.entries()) {
    const result = await task.step?.(contextOf(`${owner}/${k + 1}/step`), state, action);
    if (result === undefined) throw new TypeError('the task has no step');
    results.push(result);
    ({ state } = result);
  }
  return results;
}

async function gymCases(python: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const vectors = readVectors<Record<string, readonly Case[]>>('gym.json');
  for (const [section, env] of Object.entries(SECTIONS)) {
    const cases = (vectors[section] ?? []).filter((one) => one.expected_error === undefined);
    const rows = cases.map(({ extras }) => ({ prompt: 'a question', ...extras }));
    const dataset = await openRows(rows, { env, python });
    for (const [i, { actions, steps, metrics, tag }] of cases.entries()) {
      const results = await played(await dataset.load('test', i), `${section}-${i}`, actions);
      for (const [k, { reward, done, messages }] of results.entries()) {
        const where = `${section} ${tag} ${k}`;
        deepStrictEqual({ reward, done }, { reward: steps[k]?.reward, done: steps[k]?.done }, where);
        // Some cases say the kind of an observation, and not its text.
        const observations = (steps[k]?.observations ?? []).map((one, n) =>
          'kind' in one ? { ...messages[n], role: one.role } : one,
        );
        deepStrictEqual(messages, observations, where);
      }
      if (metrics) deepStrictEqual(results.at(-1)?.metrics, metrics, `${section} ${tag}`);
      counts[section] = (counts[section] ?? 0) + 1;
    }
  }
  return counts;
}

async function verifiersEpisodes(python: string): Promise<number> {
  const env = { env: 'vf_game:load_environment', path: [import.meta.dirname], python };
  const rows = [{ prompt: 'A number?', answer: '7' }];
  const single = await (await openRows(rows, { ...env, config: { kind: 'single' } })).load('test', 0);
  const multi = await (await openRows(rows, { ...env, config: { kind: 'multi' } })).load('test', 0);
  const said = (results: readonly StepResult[]) =>
    results.map(({ reward, done, messages }) => [reward, done, ...messages.map(({ content }) => content)]);
  deepStrictEqual(said(await played(single, 'vf-1', ['7'])), [[1, true]]);
  deepStrictEqual(said(await played(single, 'vf-2', ['8'])), [[0, true]]);
  deepStrictEqual(said(await played(multi, 'vf-3', ['1', '7'])), [
    [0, false, 'try 1 was wrong'],
    [1, true],
  ]);
  const [, , last] = await played(multi, 'vf-4', ['1', '2', '3']);
  deepStrictEqual([last?.reward, last?.done, last?.metrics?.['num_turns']], [0, true, 3]);
  const tools = await (await openRows(rows, { ...env, config: { kind: 'tools' } })).load('test', 0);
  const offered = await tools.start?.(contextOf('vf-tools/start'));
  match(offered?.messages?.[0]?.content ?? '', /"name": "add"/u);
  const call = '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>';
  deepStrictEqual(said(await played(tools, 'vf-5', [call, '7'])), [
    [0, false, '<tool_response>\n7\n</tool_response>'],
    [1, true],
  ]);
  return 5;
}

async function tasksetEpisodes(python: string): Promise<number> {
  const env = { env: 'vf_tasks:Sums', path: [import.meta.dirname], python };
  const rows = [{ prompt: '3 + 4?', answer: '7' }];
  const task = await (await openRows(rows, { ...env, config: { longest: 5 } })).load('test', 0);
  const [right] = await played(task, 'vf-6', ['7']);
  deepStrictEqual([right?.reward, right?.done, right?.metrics], [2.5, true, { characters: 1, right: 1, short: 1 }]);
  const [wrong] = await played(task, 'vf-7', ['twelve']);
  deepStrictEqual([wrong?.reward, wrong?.done, wrong?.metrics], [0, true, { characters: 6, right: 0, short: 0 }]);
  await rejects(openRows(rows, { ...env, config: { deepest: 5 } }), /deepest/u);
  return 2;
}

try {
  const [, , gym, verifiers, tasksets] = process.argv;
  process.stdout.write(`${GYM}: ${JSON.stringify(await gymCases(interpreterWith(GYM, gym)))} cases as in gym.json\n`);
  const episodes = await verifiersEpisodes(interpreterWith(VERIFIERS, verifiers));
  process.stdout.write(`${VERIFIERS}: ${episodes} episodes\n`);
  const scored = await tasksetEpisodes(interpreterWith(TASKSETS, tasksets));
  process.stdout.write(`${TASKSETS}: ${scored} episodes\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
