/**
 * Hunts episodes that a lost process costs, and environments whose mistakes are hidden. `Guess` has the interface of
 * SkyRL-Gym's environments; a stand-in takes the package's place (test/interop runs the real one).
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { classOfError } from '../../../protocol/failure-policy.ts';
import type { Task } from '../../../tasks/environment.ts';
import type { Episode } from '../../../tasks/python/episode.ts';
import { processOf } from '../../../tasks/python/python-process.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { Attempt } from './attempt.ts';

const fixtures = join(import.meta.dirname, 'fixtures');
const folders = [join(fixtures, 'standin'), join(fixtures, 'envs')];
const bench = await openBench();
const LONG = 120_000;
const folder = mkdtempSync(join(tmpdir(), 'longhaul-python-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const row = {
  prompt: [{ role: 'user', content: 'A number.' }],
  reward_spec: { ground_truth: '7' },
  extra_info: { index: 5 },
};
writeFileSync(
  join(folder, 'rows.jsonl'),
  `${JSON.stringify(row)}\n${JSON.stringify({ ...row, prompt: 'text', env_class: 'guess' })}\n`,
);

/** `mayRun`: as a worker's. */
async function taskOf(given: Record<string, unknown> = {}, index = 0, loader = new TaskLoader()): Promise<Task> {
  const options = { data: { test: 'rows.jsonl' }, env: 'game:Guess', path: folders, ...given };
  return (await loader.open({ environment: 'python', options, folder })).load('test', index);
}

async function begun(given: Record<string, unknown> = {}): Promise<Attempt> {
  const attempt = new Attempt(await taskOf(given));
  await attempt.start();
  return attempt;
}

const kill = (): void => processOf({ python: 'python3', path: folders }).close();
const user = (content: string) => ({ role: 'user', content });

describe('an environment in Python', () => {
  it('starts, answers, and gives rewards and metrics, whatever it prints', { timeout: LONG }, async () => {
    const attempt = new Attempt(await taskOf({ config: { part: 0.5 }, maxTurns: 2 }));
    const { messages } = await attempt.start();
    expect(messages).toEqual([user('A number.'), user('Guess.')]);
    const first = await attempt.step('3');
    expect(first).toMatchObject({
      messages: [user('1 tries: 3')],
      done: false,
      reward: 0.5,
      metrics: { tries: 1, won: 1 },
    });
    expect(first.metrics).not.toHaveProperty('name');
    expect(await attempt.step('7')).toMatchObject({ messages: [], done: true, reward: 1 });
    expect(await attempt.grade()).toMatchObject({ reward: 1.5, passed: true, metrics: { tries: 2, won: 0 } });
  });

  it('is found by its class or by its id, in the options or in the record', { timeout: LONG }, async () => {
    const byRecord = new Attempt(await taskOf({ env: undefined, path: folders }, 1).catch(() => taskOf({}, 1)));
    expect((await byRecord.start()).messages).toEqual([user('text'), user('Guess.')]);
    const byId = await begun({ env: 'game:guess' });
    expect(await byId.step('7')).toMatchObject({ done: true, reward: 1 });
  });

  it('scores by the last reward if asked to, and an episode that was cut too', { timeout: LONG }, async () => {
    const attempt = await begun({ reward: 'last' });
    await attempt.step('1');
    await attempt.step('2');
    expect(await attempt.grade()).toMatchObject({
      reward: 0.25,
      reason: expect.stringContaining('not done') as string,
    });
  });

  it('keeps episodes apart that share a process', { timeout: LONG }, async () => {
    const task = await taskOf();
    const attempts = Array.from({ length: 8 }, () => new Attempt(task));
    await Promise.all(attempts.map((one) => one.start()));
    const steps = await Promise.all(attempts.map((one, i) => one.step(String(i * 10))));
    expect(steps.map(({ messages }) => messages[0]?.content)).toEqual(attempts.map((_, i) => `1 tries: ${i * 10}`));
  });

  it('continues after its process was killed, and repeats a step with the same result', { timeout: LONG }, async () => {
    const attempt = await begun();
    await attempt.step('1');
    kill();
    const before = attempt.state as Episode;
    expect(await attempt.step('2')).toMatchObject({ messages: [user('2 tries: 1,2')] });
    attempt.state = before;
    expect(await attempt.step('2')).toMatchObject({ messages: [user('2 tries: 1,2')] });
    expect(before.actions).toEqual(['1']);
  });
});

describe('examples/tasks/countdown.yaml', () => {
  it('reads the messages of a policy', { timeout: LONG }, async () => {
    const examples = join(import.meta.dirname, '../../../examples/tasks');
    const path = [join(fixtures, 'standin'), 'python'];
    const options = { data: { test: 'countdown.jsonl' }, env: 'countdown_env:Countdown', path };
    const dataset = await new TaskLoader().open({ environment: 'python', options, folder: examples });
    expect(dataset.splits).toEqual({ test: 20 });
    const attempt = new Attempt(await dataset.load('test', 1));
    expect((await attempt.start()).messages?.at(-1)).toEqual(user('There are 4 left.'));
    expect((await attempt.step('four')).messages).toEqual([user('Answer with 1, 2 or 3.')]);
    await attempt.step('3');
    expect(await attempt.step(' 1')).toMatchObject({ done: true, reward: 1 });
    expect(await attempt.grade()).toMatchObject({ reward: 1, passed: true, metrics: { turns: 3 } });
  });
});

describe('what goes wrong in it', () => {
  const failing = async (action: string): Promise<Error> => {
    const attempt = await begun({ env: 'game:Hostile' });
    return attempt.step(action).then(
      () => new Error('nothing'),
      (error: unknown) => error as Error,
    );
  };

  it.each([
    ['raise', 'PythonFailed', /ValueError: no such move \(.*fixtures\/envs\/game\.py:\d+\)/u],
    ['sys.exit', 'PythonFailed', /SystemExit: 3 \(.*game\.py:\d+\)/u],
    ['exit', 'PythonFailed', /exit code 3.*3 times in the same call/su],
    ['nan', 'PythonFailed', /the reward is nan/u],
    ['none', 'PythonFailed', /the reward is None/u],
    ['changed', 'PythonFailed', /postprocessed_action/u],
  ])('%s: %s', { timeout: LONG }, async (action, name, message) => {
    const error = await failing(action);
    expect(error).toMatchObject({ name, message: expect.stringMatching(message) as string });
    expect(classOfError(error.name)).toBe('environment-failed');
  });

  it('ends what hangs, and costs the others nothing', { timeout: LONG }, async () => {
    const other = await begun({ env: 'game:Hostile' });
    const first = await other.step('pid');
    const hanging = await begun({ env: 'game:Hostile' });
    // Only the call that hangs has little time.
    hanging.task = await taskOf({ env: 'game:Hostile', seconds: 1 });
    const error = await hanging.step('hang').catch((one: unknown) => one as Error);
    expect(error).toMatchObject({ name: 'PythonTimedOut', message: expect.stringContaining('1 s') as string });
    expect(classOfError('PythonTimedOut')).toBe('environment-failed');
    const differs = other.step('1');
    // Its first reply named the process that is gone: the environment is honest about what differs.
    await expect(differs).rejects.toMatchObject({ name: 'PythonReplayDiffers', action: 1 });
    expect(first.messages[0]?.content).toMatch(/^\d+$/u);
  });

  it('says so if a new object does not do the same, and takes a pickle instead', { timeout: LONG }, async () => {
    const dice = await begun({ env: 'game:Dice' });
    const first = await dice.step('1');
    expect((await dice.step('2')).messages).toEqual(first.messages);
    kill();
    const error = await dice.step('3').catch((one: unknown) => one as Error);
    expect(error).toMatchObject({ name: 'PythonReplayDiffers', action: 1 });
    expect(classOfError('PythonReplayDiffers')).toBe('restore-failed');
    const kept = await begun({ env: 'game:Dice', replay: 'pickle' });
    const { messages } = await kept.step('1');
    kill();
    expect((await kept.step('2')).messages).toEqual(messages);
  });

  it('shows it no variables of the worker but a few', { timeout: LONG }, async () => {
    process.env['LONGHAUL_TEST_SECRET'] = 'x';
    kill();
    const attempt = await begun({ env: 'game:Hostile' });
    const [said] = (await attempt.step('env')).messages;
    delete process.env['LONGHAUL_TEST_SECRET'];
    expect(said?.content).toContain("'PATH'");
    expect(said?.content).not.toContain('SECRET');
  });

  it('is refused before it starts', { timeout: LONG }, async () => {
    const refused = (given: Record<string, unknown>) => expect(taskOf(given)).rejects;
    await refused({ env: 'game:Nothing' }).toThrow(/task\.options\.env.*has no Nothing/u);
    await refused({ env: 'no_such_module:X' }).toThrow(/ModuleNotFoundError/u);
    await refused({ env: 'game; import os' }).toThrow(/module:Class/u);
    await refused({ path: [] }).toThrow(/task\.options\.python is missing/u);
    await refused({ path: [join(folder, 'none')] }).toThrow(/give a folder of Python modules/u);
    await refused({ image: 'x' }).toThrow(/task\.options\.image/u);
    await refused({ env: undefined }).toThrow(/record 1, field env_class/u);
    await expect(begun({ env: 'game:NoStep' })).rejects.toThrow(/NoStep has no method step/u);
  });

  it('runs from allowed places alone', { timeout: LONG }, async () => {
    const loader = new TaskLoader(undefined, undefined, (field, path) => {
      throw new Error(`${field} ${path} is not allowed`);
    });
    await expect(taskOf({}, 0, loader)).rejects.toThrow(`task.options.path.0 ${folders[0]} is not allowed`);
    await expect(taskOf({ path: [], python: '/usr/bin/python3' }, 0, loader)).rejects.toThrow('task.options.python');
  });
});

describe('in a sandbox', () => {
  it('plays the same episode, a process for each step', { timeout: LONG }, async () => {
    const task = await taskOf({ sandbox: true, maxTurns: 2, memoryMiB: 256 });
    const { network: _, ...request } = task.sandboxes!['main']!;
    const limits = { memoryMiB: 256, processes: 32, diskMiB: 64 };
    const sandbox = await bench.provider.create({ ...request, id: 'python-env', ttlSeconds: 120, limits });
    const attempt = new Attempt(task, sandbox);
    expect((await attempt.start()).messages).toEqual([user('A number.'), user('Guess.')]);
    expect(await attempt.step('3')).toMatchObject({ messages: [user('1 tries: 3')], done: false, reward: 0.25 });
    expect(await attempt.step('7')).toMatchObject({ messages: [], done: true, reward: 1 });
    expect(await attempt.grade()).toMatchObject({ reward: 1.25, passed: true });
    const failing = new Attempt(await taskOf({ sandbox: true, env: 'game:Hostile' }), sandbox);
    await failing.start();
    await expect(failing.step('raise')).rejects.toThrow(/ValueError: no such move \(.*game\.py:\d+\)/u);
    await expect(failing.step('exit')).rejects.toThrow(/exit code 3/u);
    sandbox.close();
  });
});
