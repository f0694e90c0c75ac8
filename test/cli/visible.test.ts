/** Hunts text of policies, tools and servers that reaches a terminal unescaped, in any line, document or error. */

import { someTasks } from '../support/some-tasks.ts';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ActRecord, GenerateRecord, OutcomeRecord, RunEnd, RunRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { visible, visibleJson } from '../../reports/visible.ts';
import { runCommandLine } from '../../cli/run.ts';
import { screenOn } from '../../cli/train/follow.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';

/** Clears the screen, sets the title, answers for the user, hides what follows, and turns the direction of writing. */
const HOSTILE = '\u001b[2J\u001b]0;pwned\u0007\u001b[6n\u009b31m\u0008\u007f\r\u202e\u2066\u2028';
const STEERS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const steers = (text: string): boolean => STEERS.test(text.replaceAll(/[\n\t]/gu, ''));

const home = mkdtempSync(join(tmpdir(), 'longhaul-visible-'));
const rollout = 'train/r/step-1/swe-mini-train-0/0';

beforeAll(async () => {
  const store = openSqliteStore(join(home, 'store'));
  const at = { run: 'r', rollout, attempt: 1, task: 'swe-mini-train-0' };
  await store.putOnce<RunRecord>(keys.run('r'), {
    run: 'r',
    runDir: join(home, 'r'),
    seed: 1,
    startedAt: new Date(0).toISOString(),
    policy: { base: HOSTILE, parameters: 1, vocabulary: 1 },
    task: { name: 'swe-mini', train: 1, heldOut: 1 },
    tasks: someTasks,
  });
  await store.putOnce<RunEnd>(keys.runEnd('r'), {
    status: 'failed',
    finishedAt: new Date(1).toISOString(),
    message: HOSTILE,
  });
  await store.putOnce<GenerateRecord>(keys.generate(at, 1), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [0],
    end: 'stop',
    parsed: { kind: 'calls', content: HOSTILE, calls: [{ name: HOSTILE, arguments: { [HOSTILE]: HOSTILE } }] },
  });
  await store.putOnce<ActRecord>(keys.act(at, 1), { messages: [{ role: 'tool', name: 'bash', content: HOSTILE }] });
  await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
    rollout,
    task: at.task,
    attempt: 1,
    turns: 1,
    status: 'failed',
    reward: null,
    passed: false,
    finish: null,
    failure: 'grader-failed',
    reason: HOSTILE,
  });
  await store.append([{ run: 'r', rollout, attempt: 1, event: 'dispatched', at: new Date(0).toISOString() }]);
  await store.close();
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

async function call(args: readonly string[]) {
  let [out, err] = ['', ''];
  const around = { out: (text: string) => void (out += text), err: (text: string) => void (err += text) };
  const env = { LONGHAUL_HOME: home, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  const exitCode = await runCommandLine(args, { ...around, env, cwd: home, signal: new AbortController().signal });
  return { exitCode, out, err };
}

it.each([
  ['trajectory', rollout],
  ['trajectory', rollout, '--json'],
  ['rollouts', 'r'],
  ['rollouts', 'r', '--json'],
  ['show', 'r'],
  ['show', 'r', '--json'],
  ['runs'],
  ['trajectory', HOSTILE],
  ['show', HOSTILE],
])('%s %s %s', async (...args) => {
  const { out, err } = await call(args);
  expect(`${out}${err}`).toMatch(/\S/u);
  expect(steers(out) || steers(err)).toBe(false);
});

it('the conversation is there, written out', async () => {
  const { exitCode, out } = await call(['trajectory', rollout]);
  expect(exitCode).toBe(0);
  expect(out).toContain('\\x1b[2J\\x1b]0;pwned\\x07');
  expect(out).toContain('\\u202e\\u2066\\u2028');
  const { out: json } = await call(['trajectory', rollout, '--json']);
  expect(JSON.stringify(JSON.parse(json))).toContain(JSON.stringify(HOSTILE).slice(1, -1));
});

it('the lines and the bar of a live run (`watch`, `train`, `eval`)', () => {
  let written = '';
  const stream = { isTTY: false, columns: 500, write: (text: string) => void (written += text) };
  screenOn(stream as unknown as NodeJS.WriteStream).line(HOSTILE);
  expect(steers(written)).toBe(false);
  written = '';
  screenOn({ ...stream, isTTY: true } as unknown as NodeJS.WriteStream).bar(HOSTILE);
  expect(steers(written.replace('\r\u001b[2K', ''))).toBe(false);
});

it('any text at all; as JSON it is the same document', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(steers(visible(text))).toBe(false);
      expect(visible(visible(text))).toBe(visible(text));
      const json = visibleJson({ [text]: [text] });
      expect(steers(json)).toBe(false);
      expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify({ [text]: [text] })));
    }),
    { numRuns: 50 },
  );
});
