/**
 * Runs unchanged environments of the real SkyRL-Gym (from PyPI, in a virtual environment in the cache) by the
 * environment `python`, on the cases of gym.json. `node test/interop/python-environments.ts [PYTHON]`; PYTHON is an
 * interpreter that has skyrl-gym.
 */

import { deepStrictEqual } from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheDirectory } from '#setup/paths.mjs';
import { contextOver } from '../../activities/task-context.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { SandboxProvider } from '../../sandboxes/sandbox.ts';
import { readVectors } from '../support/vectors.ts';

const PACKAGE = 'skyrl-gym==0.4.0';
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

function interpreter(): string {
  const given = process.argv[2];
  if (given !== undefined) return given;
  const venv = join(cacheDirectory(), 'interop', 'skyrl-gym-0.4.0');
  const python = join(venv, 'bin', 'python');
  if (!existsSync(python)) execFileSync('python3', ['-m', 'venv', venv], { stdio: 'inherit' });
  execFileSync(python, ['-m', 'pip', 'install', '-q', PACKAGE], { stdio: 'inherit' });
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

const python = interpreter();
const folder = mkdtempSync(join(tmpdir(), 'longhaul-interop-'));
const counts: Record<string, number> = {};
try {
  const vectors = readVectors<Record<string, readonly Case[]>>('gym.json');
  for (const [section, env] of Object.entries(SECTIONS)) {
    const cases = (vectors[section] ?? []).filter((one) => one.expected_error === undefined);
    const rows = cases.map(({ extras }) => JSON.stringify({ prompt: 'a question', ...extras }));
    writeFileSync(join(folder, 'rows.jsonl'), rows.join('\n'));
    const options = { data: { test: 'rows.jsonl' }, env, python };
    const dataset = await new TaskLoader().open({ environment: 'python', options, folder });
    for (const [i, { actions, steps, metrics, tag }] of cases.entries()) {
      const task = await dataset.load('test', i);
      const owner = `${section}-${i}`;
      let { state } = (await task.start?.(contextOf(`${owner}/start`))) ?? { state: undefined };
      for (const [k, action] of actions.entries()) {
        const result = await task.step?.(contextOf(`${owner}/${k + 1}/step`), state, action);
        const expected = steps[k];
        deepStrictEqual(
          { reward: result?.reward, done: result?.done },
          { reward: expected?.reward, done: expected?.done },
          `${section} ${tag} ${k}`,
        );
        // Some cases say the kind of an observation, and not its text.
        const observations = (expected?.observations ?? []).map((one, n) =>
          'kind' in one ? { ...result?.messages[n], role: one.role } : one,
        );
        deepStrictEqual(result?.messages, observations, `${section} ${tag} ${k}`);
        state = result?.state;
        if (k === actions.length - 1 && metrics) deepStrictEqual(result?.metrics, metrics, `${section} ${tag}`);
      }
      counts[section] = (counts[section] ?? 0) + 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.stdout.write(`${PACKAGE}: ${JSON.stringify(counts)} cases as in gym.json\n`);
process.exit(0);
