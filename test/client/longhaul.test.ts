/** Hunts a command that works only inside the tests' process: these tests call `bin/longhaul.mjs` as users do. */

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-cli-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function longhaul(args: string[], root = packageRoot, set: NodeJS.ProcessEnv = {}) {
  const { TEMPORAL_ADDRESS: _address, LONGHAUL_HOME: _home, ...env } = process.env;
  return spawnSync(process.execPath, [join(root, 'bin', 'longhaul.mjs'), ...args], {
    cwd: directory,
    env: { ...env, ...set },
    encoding: 'utf8',
  });
}

test('a copy without its dependencies says what to run, with exit code 3', () => {
  for (const name of ['bin', 'scripts', 'cli'])
    cpSync(join(packageRoot, name), join(directory, name), { recursive: true });
  const { status, stdout, stderr } = longhaul(['ps'], directory);
  expect([status, stdout]).toEqual([3, '']);
  expect(stderr).toContain(`node ${join(directory, 'scripts', 'setup.mjs')}`);
});

test('doctor finds everything required here, as one document', () => {
  const { status, stdout } = longhaul(['doctor', '--json']);
  const report = JSON.parse(stdout) as {
    ok: boolean;
    checks: Array<{ name: string; state: string; required: boolean; remedy?: string }>;
  };
  expect(report.checks.filter((one) => one.required && one.state === 'missing')).toEqual([]);
  expect([status, report.ok]).toEqual([0, true]);
  for (const name of ['Node.js', 'engine', 'NVIDIA GPU', 'Temporal', 'Docker daemon', 'bubblewrap']) {
    expect(report.checks.map((one) => one.name)).toContain(name);
  }
  for (const one of report.checks.filter((check) => check.state === 'missing')) expect(one.remedy).toBeTruthy();
});

test('doctor names a daemon of another machine with what to do, and demands the kind of sandbox that is asked for', () => {
  const checks = (sandbox: string) => {
    const { stdout } = longhaul(['doctor', '--json'], packageRoot, {
      DOCKER_HOST: 'tcp://192.0.2.7:2375',
      LONGHAUL_SANDBOX: sandbox,
    });
    return (
      JSON.parse(stdout) as { checks: Array<{ name: string; state: string; required: boolean; remedy?: string }> }
    ).checks;
  };
  const docker = {
    name: 'Docker daemon',
    state: 'missing',
    remedy: expect.stringMatching(
      /^DOCKER_HOST=tcp:\/\/192\.0\.2\.7:2375: it is another machine.*unix:\/\/\/var\/run\/docker\.sock/,
    ),
  };
  expect(checks('auto')).toContainEqual({ ...docker, required: false });
  expect(checks('docker')).toContainEqual({ ...docker, required: true });
});

test.each(['sft', 'serve', 'bench', 'chaos'])(
  'help of %s is help alone: nothing heavy is loaded, and nothing else is said',
  (verb) => {
    const { status, stdout, stderr } = longhaul([verb, '--help']);
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`^Usage: longhaul ${verb} `));
  },
);

test('a reader that goes away early, like head, ends the command without a stack trace', () => {
  const { TEMPORAL_ADDRESS: _address, LONGHAUL_HOME: _home, ...env } = process.env;
  const command = `"${process.execPath}" "${join(packageRoot, 'bin', 'longhaul.mjs')}" --help | true; exit "\${PIPESTATUS[0]}"`;
  const { status, stderr } = spawnSync('bash', ['-c', command], { cwd: directory, env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
});

test('ps and down of a folder without a stack say so and are no failure', () => {
  const listed = longhaul(['ps', '--json']);
  expect(listed.status).toBe(0);
  expect(JSON.parse(listed.stdout)).toMatchObject({
    status: 'down',
    home: join(directory, '.longhaul'),
    processes: [],
  });
  const stopped = longhaul(['down', '--json']);
  expect([stopped.status, JSON.parse(stopped.stdout)]).toEqual([0, { wasUp: false, stopped: [] }]);
});

test('an option that cannot be used names field, value and remedy, with exit code 2', () => {
  const { status, stdout } = longhaul(['down', '--timeout', 'soon', '--json']);
  expect(status).toBe(2);
  expect(JSON.parse(stdout).error).toMatchObject({ field: '--timeout', value: 'soon', remedy: expect.any(String) });
  expect(longhaul(['up', '--roles', 'gpu,chef']).status).toBe(2);
});

test('a cluster that is named and does not answer is exit code 3', () => {
  mkdirSync(join(directory, 'config'));
  const env = { ...process.env, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const bin = join(packageRoot, 'bin', 'longhaul.mjs');
  const { status, stderr } = spawnSync(process.execPath, [bin, 'up', '--detach'], {
    cwd: directory,
    env,
    encoding: 'utf8',
  });
  expect(status).toBe(3);
  expect(stderr).toContain('127.0.0.1:1');
});
