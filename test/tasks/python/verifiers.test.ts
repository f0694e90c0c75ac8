/**
 * Hunts environments of `verifiers` that are played otherwise than by their own package: calls of tools that are lost,
 * state that does not last, and kinds that cannot be played but start. A stand-in takes the package's place
 * (test/interop runs the real one).
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { processOf } from '../../../tasks/python/python-process.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { Attempt } from './attempt.ts';

const fixtures = join(import.meta.dirname, 'fixtures');
const path = [join(fixtures, 'standin'), join(fixtures, 'envs')];
const LONG = 120_000;
const folder = mkdtempSync(join(tmpdir(), 'longhaul-verifiers-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, 'rows.jsonl'), JSON.stringify({ prompt: 'A number?', answer: '7' }));

async function opened(kind: string, given: Record<string, unknown> = {}) {
  const options = { data: { test: 'rows.jsonl' }, env: 'asks:load_environment', config: { kind }, path, ...given };
  return new TaskLoader().open({ environment: 'python', options, folder });
}

async function begun(kind: string) {
  const attempt = new Attempt(await (await opened(kind)).load('test', 0));
  const { messages = [] } = await attempt.start();
  return { attempt, messages };
}

const user = (content: string) => ({ role: 'user', content });
const call = (body: string) => `<tool_call>\n${body}\n</tool_call>`;

describe('an environment of verifiers', () => {
  it('has its system prompt, and the weighted functions of its rubric', { timeout: LONG }, async () => {
    const { attempt, messages } = await begun('single');
    expect(messages).toEqual([{ role: 'system', content: 'Answer with a number.' }, user('A number?')]);
    expect(await attempt.step('7')).toMatchObject({ done: true, reward: 1.1, metrics: { exact: 1, tries: 1 } });
    expect(await attempt.grade()).toMatchObject({ reward: 1.1, metrics: { exact: 1, tries: 1 } });
  });

  it('keeps its state between turns, also after its process was killed', { timeout: LONG }, async () => {
    const { attempt } = await begun('guess');
    expect(await attempt.step('1')).toMatchObject({ messages: [user('more than 1')], done: false });
    processOf({ python: 'python3', path }).close();
    expect(await attempt.step('2')).toMatchObject({ messages: [user('more than 2')], done: false });
    const last = await attempt.step('7');
    expect(last).toMatchObject({ done: true, metrics: { exact: 1, tries: 3 } });
    expect(last.reward).toBeCloseTo(1.3);
  });

  it('gives the policy the schemas of its tools, and runs what it calls', { timeout: LONG }, async () => {
    const { attempt, messages } = await begun('tools');
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user']);
    const [, schema = ''] = /<tools>\n(.*)\n<\/tools>/u.exec(messages[0]?.content ?? '') ?? [];
    expect(JSON.parse(schema) as unknown).toMatchObject({
      function: { name: 'add', parameters: { required: ['a', 'b'] } },
    });
    const two = `${call('{"name": "add", "arguments": {"a": 3, "b": 4}}')}${call('{"name": "sub", "arguments": {}}')}`;
    expect(await attempt.step(`<think>${call('{"name": "x"}')}</think>I add. ${two}`)).toMatchObject({
      messages: [user("<tool_response>\n7\n</tool_response>\n<tool_response>\n'sub'\n</tool_response>")],
      done: false,
    });
    const [answer] = (await attempt.step(call('{"name": "add", "arg'))).messages;
    expect(answer?.content).toMatch(/<tool_response>\nUnterminated string/u);
    expect(await attempt.step('7')).toMatchObject({ messages: [], done: true, metrics: { exact: 1, tries: 3 } });
  });

  it('may not change what the policy has read', { timeout: LONG }, async () => {
    const { attempt } = await begun('rewrites');
    await expect(attempt.step('7')).rejects.toThrow(/Rewrites changed messages that the policy has read/u);
  });
});

const newer = [join(fixtures, 'verifiers-4'), join(fixtures, 'envs')];
const taskset = (name: string, config = {}) => ({ env: `sums:${name}`, path: newer, config });

describe('a taskset of verifiers 0.4', () => {
  it('reads one message, and its weighted rewards and metrics are the verdict', { timeout: LONG }, async () => {
    const attempt = new Attempt(await (await opened('', taskset('Sums', { longest: 5 }))).load('test', 0));
    expect((await attempt.start()).messages).toEqual([user('A number?')]);
    const metrics = { right: 1, short: 1, read: 9 };
    expect(await attempt.step('7')).toMatchObject({ messages: [], done: true, reward: 2.5, metrics });
    expect(await attempt.grade()).toMatchObject({ reward: 2.5, passed: true, metrics });
  });
});

describe('what cannot be played is refused when it is opened', () => {
  it.each([
    ['sandbox', {}, /SandboxEnv of verifiers cannot be played.*tools in Longhaul's sandbox/u],
    ['group', {}, /SingleTurnEnv scores a group of rollouts \(ranked\).*functions of one rollout/u],
    ['none', {}, /object has no rollout: load_environment must return/u],
    ['single', { path: newer }, /pip install 'verifiers<0\.4'/u],
    ['Tested', taskset('Tested'), /Tested \(WithRuntime\) cannot be played: tested needs a runtime/u],
    ['Box', taskset('Box'), /need a container/u],
    ['Tools', taskset('Tools'), /servers of tools \(Search\): give a ToolEnv of verifiers before 0\.4/u],
    ['Sums', taskset('Sums', { deepest: 1 }), /ValueError: unknown field deepest/u],
  ])('%s', { timeout: LONG }, async (kind, given, message) => {
    const opening = opened(kind, given);
    await expect(opening).rejects.toThrow(/task\.options\.env/u);
    await expect(opening).rejects.toThrow(message);
  });
});
