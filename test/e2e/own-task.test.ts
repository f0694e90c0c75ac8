/**
 * A task and a tool of one's own, through a real stack of the package as it is installed: the example in
 * `examples/own-task`, copied as its users copy it. Why: what only the caller's process knows no worker can do. The
 * policy is a server that says what it is told; sandboxes are bubblewrap's.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { stopStack } from '../../stack/stop-stack.ts';
import type { CliResult } from '../support/cli.ts';
import { type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';
import { installPackage } from '../support/package.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-own-task-'));
const module = 'count-errors.ts';
const task = 'count-errors-held-out-0';
const { LONGHAUL_HOME: _home, TEMPORAL_ADDRESS: _address, LONGHAUL_MODULES: _modules, ...inherited } = process.env;
let program = '';
let server: LoopbackServer;
/** What the policy calls in its turns, one after the other. */
let says: ReadonlyArray<readonly [tool: string, args: Readonly<Record<string, unknown>>]> = [];

beforeAll(async () => {
  program = join(await installPackage(dir), 'bin', 'longhaul.mjs');
  copyFileSync(join(packageRoot, 'examples', 'own-task', module), join(dir, module));
  const text = readFileSync(join(dir, module), 'utf8');
  // A mistake of its author, met by one answer alone.
  writeFileSync(
    join(dir, module),
    text.replace('const passed =', "if (answer === '99') throw new TypeError('no such answer');\n    const passed ="),
  );
  server = await startLoopback(({ path, body }) => {
    if (!path.endsWith('/chat/completions')) return { status: 404, body: { error: { message: 'no such path' } } };
    const turn = (body['messages'] as Array<{ role: string }>).filter(({ role }) => role === 'assistant').length;
    const [name, args] = says[turn] ?? ['finish', {}];
    const call = { id: `call-${turn}`, type: 'function', function: { name, arguments: JSON.stringify(args) } };
    return {
      body: {
        choices: [{ finish_reason: 'tool_calls', message: { content: '', tool_calls: [call] } }],
        usage: { prompt_tokens: 10, completion_tokens: 7 },
      },
    };
  });
});
afterAll(async () => {
  await stopStack({ home: join(dir, '.longhaul') });
  await server?.close();
  rmSync(dir, { recursive: true, force: true });
});

function longhaul(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CliResult> {
  const options = { cwd: dir, env: { ...inherited, LONGHAUL_SANDBOX: 'bubblewrap', ...env }, timeout: 200_000 };
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}

const rollOut = (env?: NodeJS.ProcessEnv) =>
  longhaul(
    ['rollout', '--task', task, '--endpoint', server.baseUrl, '--model', 'scripted', '--max-context-tokens', '4000'],
    env,
  );
const errors = ['bash', { command: 'grep -c " ERROR " server.log' }] as const;

it('a module that cannot be imported is bad input, and starts nothing', async () => {
  writeFileSync(join(dir, 'broken.mjs'), "throw new Error('not today');\n");
  for (const [modules, reason] of [
    ['nowhere.ts', /there is no such file/],
    ['broken.mjs', /not today/],
  ] as const) {
    const { code, stderr } = await rollOut({ LONGHAUL_MODULES: modules });
    expect(stderr).toContain(
      `LONGHAUL_MODULES: "${join(dir, modules)}" cannot be used; give modules that can be imported`,
    );
    expect(stderr).toMatch(reason);
    expect(code).toBe(2);
  }
  const { code, stderr } = await longhaul(['up', '--detach', '--modules', 'nowhere.ts']);
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining(`--modules: "${join(dir, 'nowhere.ts')}" cannot be used`),
  ]);
  const worker = await longhaul(['worker', '--role', 'init'], {
    LONGHAUL_MODULES: 'broken.mjs',
    TEMPORAL_ADDRESS: '127.0.0.1:1',
  });
  expect([worker.code, worker.stderr]).toEqual([2, expect.stringContaining('not today')]);
  expect((await longhaul(['ps'])).stdout).toContain('is down');
});

it('no worker knows a task that nobody told it of', async () => {
  const { code, stderr } = await rollOut();
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      /--task: "count-errors-held-out-0" cannot be used; .*known: swe-mini \(LONGHAUL_MODULES .*\)/,
    ),
  ]);
});

it('runs and evals of it are checked by the same module', async () => {
  const starter = join(packageRoot, 'examples', 'starter');
  writeFileSync(join(dir, 'run.yaml'), `task: { name: count-errors }\npolicy: { base: ${starter} }\n`);
  writeFileSync(join(dir, 'eval.yaml'), 'tasks: { name: count-errors, count: 2 }\npolicies: [starter]\n');
  for (const [verb, field] of [
    ['train', 'task.name'],
    ['eval', 'tasks.name'],
  ] as const) {
    const without = await longhaul([verb, `${verb === 'train' ? 'run' : 'eval'}.yaml`, '--dry-run']);
    expect([without.code, without.stderr]).toEqual([
      2,
      expect.stringContaining(`${field}: "count-errors" cannot be used`),
    ]);
    const { code, stderr } = await longhaul([verb, `${verb === 'train' ? 'run' : 'eval'}.yaml`, '--dry-run'], {
      LONGHAUL_MODULES: module,
    });
    expect(code, stderr).toBe(0);
  }
});

it('a rollout of it reaches its workers: its tool acts in the sandbox, and its grader has the last word', async () => {
  says = [errors, ['answer', { count: 1 }]];
  const wrong = await rollOut({ LONGHAUL_MODULES: module });
  expect(wrong.code, wrong.stderr).toBe(0);
  expect(wrong.stdout).toContain('How many lines of /logs/server.log');
  const [, right] = /── turn 1 · observation\n(\d+)\n/.exec(wrong.stdout) ?? [];
  expect(wrong.stdout).toContain(`reward 0 (not passed): the answer was 1, and ${right} is right`);
  // The stack knows the module: whoever says nothing goes on with it.
  says = [
    ['answer', { count: -1 }],
    ['answer', { count: Number(right) }],
  ];
  const { code, stdout, stderr } = await rollOut();
  expect(code, stderr).toBe(0);
  expect(stdout).toContain('── turn 1 · observation\nError: count -1: must be 0 or more.');
  expect(stdout).toContain(`── turn 2 · observation\nThe answer is ${right}.`);
  expect(stdout).toContain('reward 1 (passed)');
  expect(stdout).toContain('── turn 1 · 7 tokens');
  const tools = server.asked.at(-1)?.body['tools'] as Array<{ function: { name: string } }>;
  expect(tools.map((tool) => tool.function.name)).toEqual(['bash', 'answer', 'finish']);
});

it('what its grader throws is said once, with the file and the line', async () => {
  says = [['answer', { count: 99 }]];
  const { code, stdout, stderr } = await rollOut();
  const line =
    readFileSync(join(dir, module), 'utf8')
      .split('\n')
      .findIndex((text) => text.includes('no such answer')) + 1;
  expect(code, stdout).toBe(1);
  expect(stderr).toContain(
    `failed: grader-failed: the grader threw TypeError: no such answer (${join(dir, module)}:${line})`,
  );
  expect(`${stdout}${stderr}`.split('no such answer')).toHaveLength(2);
  says = [];
});

it('another module than the stack has is refused; down, its rollouts can still be looked at', async () => {
  writeFileSync(join(dir, 'other.mjs'), '');
  const { code, stderr } = await rollOut({ LONGHAUL_MODULES: `${module}:other.mjs` });
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining(`the stack in ${join(dir, '.longhaul')} runs with ${JSON.stringify(join(dir, module))}`),
  ]);
  const [, rollout = ''] = /^rollout (\S+)$/m.exec((await rollOut()).stdout) ?? [];
  expect((await longhaul(['down'])).code).toBe(0);
  expect((await longhaul(['trajectory', rollout])).stdout).toContain('How many lines of /logs/server.log');
});
