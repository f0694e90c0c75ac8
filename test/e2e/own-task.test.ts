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
const { LONGHAUL_HOME: _home, TEMPORAL_ADDRESS: _address, ...inherited } = process.env;
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

const rollOut = (modules: readonly string[] = []) => {
  const policy = ['--endpoint', server.baseUrl, '--model', 'scripted', '--max-context-tokens', '4000'];
  return longhaul(['rollout', '--task', task, ...policy, ...(modules.length > 0 ? ['--modules', ...modules] : [])]);
};
const errors = ['bash', { command: 'grep -c " ERROR " server.log' }] as const;

it('a module that cannot be imported is bad input, and starts nothing', async () => {
  writeFileSync(join(dir, 'broken.mjs'), "throw new Error('not today');\n");
  for (const [file, reason] of [
    ['nowhere.ts', /give modules that can be bundled: there is no such file/],
    ['broken.mjs', /fix what does not load \(Error: not today \(.*broken\.mjs:1\)\)/],
  ] as const) {
    const { code, stderr } = await rollOut([file]);
    expect(stderr).toContain(join(dir, file));
    expect(stderr).toMatch(reason);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--modules: ')]);
  }
  const known = { LONGHAUL_MODULES: module, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  for (const args of [
    ['up', '--detach'],
    ['worker', '--role', 'init'],
  ]) {
    const { code, stderr } = await longhaul(args, known);
    expect([code, stderr]).toEqual([2, expect.stringContaining('unset it: name modules in the configuration')]);
  }
  expect((await longhaul(['ps'])).stdout).toContain('is down');
});

it('nobody knows a task without its module', async () => {
  const { code, stderr } = await rollOut();
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(/--task: "count-errors-held-out-0" cannot be used; .*known: swe-mini, .* \(modules .*\)/),
  ]);
});

it('runs and evals of it are checked by the same module', async () => {
  const starter = join(packageRoot, 'examples', 'starter');
  writeFileSync(join(dir, 'run.yaml'), `task: { name: count-errors }\npolicy: { base: ${starter} }\n`);
  writeFileSync(join(dir, 'eval.yaml'), 'tasks: { name: count-errors, count: 2 }\npolicies: [starter]\n');
  for (const [verb, file, field] of [
    ['train', 'run.yaml', 'task.name'],
    ['eval', 'eval.yaml', 'tasks.name'],
  ] as const) {
    const without = await longhaul([verb, file, '--dry-run']);
    expect([without.code, without.stderr]).toEqual([
      2,
      expect.stringContaining(`${field}: "count-errors" cannot be used`),
    ]);
    const { code, stderr } = await longhaul([verb, file, '--dry-run', '--set', `modules=[${module}]`]);
    expect(code, stderr).toBe(0);
  }
});

it('a rollout of it reaches its workers: its tool acts in the sandbox, and its grader has the last word', async () => {
  says = [errors, ['answer', { count: 1 }]];
  const wrong = await rollOut([module]);
  expect(wrong.code, wrong.stderr).toBe(0);
  expect(wrong.stdout).toContain('How many lines of /logs/server.log');
  const [, right] = /── turn 1 · observation\n(\d+)\n/.exec(wrong.stdout) ?? [];
  expect(wrong.stdout).toContain(`reward 0 (not passed): the answer was 1, and ${right} is right`);
  says = [
    ['answer', { count: -1 }],
    ['answer', { count: Number(right) }],
  ];
  const { code, stdout, stderr } = await rollOut([module]);
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
  const { code, stdout, stderr } = await rollOut([module]);
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

it('a changed module is used by the next rollout, without a restart; down, its rollouts can still be looked at', async () => {
  const text = readFileSync(join(dir, module), 'utf8');
  writeFileSync(join(dir, module), text.replace('How many lines', 'How many rows'));
  const changed = (await rollOut([module])).stdout;
  expect(changed).toContain('How many rows of /logs/server.log');
  const [, rollout = ''] = /^rollout (\S+)$/m.exec(changed) ?? [];
  expect((await longhaul(['down'])).code).toBe(0);
  expect((await longhaul(['trajectory', rollout])).stdout).toContain('How many rows of /logs/server.log');
});
