/**
 * A small instance in the form of SWE-bench, with its sources as a recipe, and what a worker does with it. Its
 * repository has a future: commits after the base, tags, a remote, a stash.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll } from 'vitest';

import { contextOver, freshContext } from '../../../activities/task-context.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import type { ExecResult, Sandbox, SandboxProvider } from '../../../sandboxes/sandbox.ts';
import type { Task } from '../../../tasks/environment.ts';
import { machineOf } from '../../../tasks/resources.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';

export const ID = 'owner__calc-1';

/** Prints as `pytest -rA` does. */
const RUNNER = `import importlib.util, sys, traceback
failed = 0
lines = []
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("tested", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in [name for name in dir(module) if name.startswith("test_")]:
        try:
            getattr(module, name)()
            lines.append(f"PASSED {path}::{name}")
        except Exception as error:
            failed += 1
            lines.append(f"FAILED {path}::{name} - {type(error).__name__}")
print("=== short test summary info ===")
print("\\n".join(lines))
sys.exit(1 if failed else 0)
`;

export const FILES: Readonly<Record<string, string | Buffer>> = {
  '.gitignore': '*.log\nbuild/\n',
  'run_tests_of.py': RUNNER,
  'calc/__init__.py': 'def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n',
  'calc/latin.txt': Buffer.from('caf\xe9\nline\n', 'latin1'),
  'calc/dos.txt': 'one\r\ntwo\r\n',
  'tests/test_calc.py': 'import calc\n\n\ndef test_double():\n    assert calc.double(2) == 4\n',
};

export const GOLD = `diff --git a/calc/__init__.py b/calc/__init__.py
--- a/calc/__init__.py
+++ b/calc/__init__.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def double(a):
`;

export const TEST_PATCH = `diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -3,3 +3,7 @@
 
 def test_double():
     assert calc.double(2) == 4
+
+
+def test_add():
+    assert calc.add(2, 3) == 5
`;

const git = (at: string, ...args: string[]): string =>
  execFileSync('git', ['-C', at, '-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'commit.gpgsign=false', ...args], {
    encoding: 'utf8',
    env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
  }).trim();

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

export interface Place {
  readonly folder: string;
  readonly record: Readonly<Record<string, unknown>>;
  /** A commit after the base, with the solution. */
  readonly future: string;
  readonly base: string;
}

function write(at: string, files: Readonly<Record<string, string | Buffer>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(at, path)), { recursive: true });
    writeFileSync(join(at, path), content);
  }
}

/** Makes the recipe and the records. `changes`: of the record; `undefined` leaves a field out. */
export function makePlace(changes: Readonly<Record<string, unknown>> = {}): Place {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-swe-bench-'));
  folders.push(folder);
  const at = join(folder, 'testbed');
  write(at, { ...FILES, 'calc/__init__.py': 'def double(a):\n    return 2 * a\n' });
  git(at, 'init', '-q', '-b', 'master');
  git(at, 'add', '-A');
  git(at, 'commit', '-q', '-m', 'first');
  git(at, 'tag', '-a', 'v1', '-m', 'one');
  write(at, FILES);
  git(at, 'commit', '-q', '-a', '-m', 'add');
  const base = git(at, 'rev-parse', 'HEAD');
  writeFileSync(join(at, 'gold.diff'), GOLD);
  git(at, 'apply', 'gold.diff');
  rmSync(join(at, 'gold.diff'));
  git(at, 'commit', '-q', '-a', '-m', 'the solution');
  const future = git(at, 'rev-parse', 'HEAD');
  git(at, 'tag', '-a', 'v2', '-m', 'two');
  git(at, 'update-ref', 'refs/remotes/origin/main', future);
  git(at, 'remote', 'add', 'origin', 'https://example.invalid/calc.git');
  writeFileSync(join(at, 'calc/dos.txt'), 'stashed');
  git(at, 'stash', '-q');
  git(at, 'checkout', '-q', '--detach', base);
  // What an image's build left behind: an untracked file, an ignored one, and a nested repository.
  write(at, { 'left-over.txt': 'by the image\n', 'build/made.txt': 'made\n', 'build.log': 'log\n' });
  const recipe = join(folder, 'recipes', ID);
  mkdirSync(recipe, { recursive: true });
  execFileSync('tar', ['-C', folder, '-czf', join(recipe, 'src.tar.gz'), 'testbed']);
  const record = {
    instance_id: ID,
    repo: 'owner/calc',
    version: '1.0',
    base_commit: base,
    problem_statement: 'add(2, 3) is -1. It should be 5.',
    hints_text: 'Use a plus.',
    patch: GOLD,
    test_patch: TEST_PATCH,
    FAIL_TO_PASS: '["tests/test_calc.py::test_add"]',
    PASS_TO_PASS: ['tests/test_calc.py::test_double'],
    ...changes,
  };
  writeFileSync(join(folder, 'records.json'), JSON.stringify([record]));
  return { folder, record, future, base };
}

const KEY = 'swe_bench-test-0';
const { signal } = new AbortController();
const ask = () => Promise.reject(new Error('swe_bench asks no judge'));
const asks = { ask, deadline: Number.POSITIVE_INFINITY, signal, key: KEY };

export async function openTask(
  { folder }: Place,
  options: Readonly<Record<string, unknown>> = {},
  mayRead?: (field: string, path: string) => void,
): Promise<Task> {
  const dataset = await new TaskLoader(undefined, mayRead).open({
    environment: 'swe_bench',
    folder,
    options: {
      data: { test: 'records.json' },
      recipe: 'recipes',
      testCommand: 'PYTHONPATH=. python3 run_tests_of.py',
      memoryMiB: 256,
      diskMiB: 64,
      processes: 64,
      ...options,
    },
  });
  return await dataset.load('test', 0);
}

/** The agent's sandbox of a task, and what follows its work there. */
export class Rollout {
  readonly task: Task;
  readonly sandbox: Sandbox;
  readonly #provider: SandboxProvider;
  #calls = 0;

  private constructor(task: Task, sandbox: Sandbox, provider: SandboxProvider) {
    this.task = task;
    this.sandbox = sandbox;
    this.#provider = provider;
  }

  static async start(task: Task, provider: SandboxProvider, id: string): Promise<Rollout> {
    const { network: _, ...machine } = machineOf(task, KEY, 'main');
    return new Rollout(task, await provider.create({ ...machine, id, ttlSeconds: 120 }), provider);
  }

  async run(command: string): Promise<ExecResult> {
    this.#calls += 1;
    const callId = `${this.sandbox.id}/${this.#calls}`;
    return await this.sandbox.exec({ callId, command, timeoutMs: 60_000, outputLimit: 1 << 20 });
  }

  async solve(): Promise<void> {
    const messages = (await this.task.oracle?.({ key: KEY, signal })) ?? [];
    for (const message of messages)
      for (const { name, arguments: args } of message.role === 'assistant' ? (message.toolCalls ?? []) : [])
        if (name === 'bash') await this.run(String(args['command']));
  }

  async collect(): Promise<Uint8Array> {
    const named = { ...asks, id: `${this.sandbox.id}/collect-1`, execution: 1 };
    return (await this.task.collect?.(contextOver({ main: this.sandbox }, this.#provider, named))) ?? new Uint8Array();
  }

  async grade(artifact: Uint8Array, execution = 1): Promise<Verdict> {
    const id = `${this.sandbox.id}-grade-${execution}`;
    const ctx = freshContext(this.task, this.#provider, 120, { ...asks, id, execution });
    const work = {
      transcript: [],
      answer: '',
      finish: 'finish-tool',
      turns: 1,
      state: undefined,
      turnRewards: [],
    } as const;
    try {
      return await this.task.grade(ctx, { ...work, artifact });
    } finally {
      for (const end of ['', '-own', '-control']) await this.#provider.destroy(`${id}${end}`);
    }
  }

  async end(): Promise<Verdict> {
    return await this.grade(await this.collect());
  }
}
